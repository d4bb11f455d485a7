"""Verification of tokens: valid ones, the reasons of refusals, and forged or odd tokens."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.federation import tokens
from chalicelib.federation.key_sets import KeySet
from chalicelib.federation.tokens import Claims, Rejected, Unverified
from tests.federation import signing
from tests.federation.signing import HEADER, NOW, PAYLOAD, Trust, token

KEYS = KeySet.parse({"keys": [signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk()]})


def verify(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> Claims:
    return tokens.verify(text, keys, trust or Trust(), NOW)


def refusal(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> tuple[str, bool]:
    """Return the reason of a refusal, and whether the token was signed."""
    with pytest.raises(Rejected) as rejected:
        verify(text, trust, keys)
    return rejected.value.reason, rejected.value.is_signed


def without(name: str, values: Mapping[str, Any] = PAYLOAD) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def inserted(text: str, values: Mapping[str, Any]) -> str:
    """Return an object as JSON with a member before all others."""
    return f"{{{text}, {json.dumps(dict(values))[1:]}"


def test_a_valid_token_has_claims() -> None:
    assert tokens.read_unverified(token()) == Unverified(signing.ISSUER, "rsa", "RS256")
    expected = Claims(
        issuer=signing.ISSUER,
        subject=PAYLOAD["sub"],
        token_id="e6a6b6f2",
        expires=NOW + 300,
        owner_name=None,
        all=PAYLOAD,
    )
    assert verify(token()) == expected


@pytest.mark.parametrize(
    ("header", "sign"),
    [
        ({"alg": "PS256", "kid": "rsa"}, signing.sign_ps256),
        ({"alg": "ES256", "kid": "ec"}, signing.sign_es256),
        ({"alg": "EdDSA", "kid": "ed"}, signing.sign_eddsa),
    ],
)
def test_algorithms_of_other_keys_are_accepted(header: dict[str, str], sign: Any) -> None:
    assert verify(token(header, PAYLOAD, sign)).subject == PAYLOAD["sub"]


@pytest.mark.parametrize(
    "payload",
    [
        {**PAYLOAD, "aud": ["other", signing.AUDIENCE]},
        without("nbf"),
        {**PAYLOAD, "exp": NOW - 59, "iat": NOW - 400},
        {**PAYLOAD, "iat": NOW + 60, "nbf": NOW + 60},
        {**PAYLOAD, "exp": PAYLOAD["iat"] + 24 * 3600},
        {**PAYLOAD, "exp": NOW + 300.5},
        {**PAYLOAD, "email_verified": "true"},
    ],
)
def test_bounds_are_inclusive(payload: dict[str, Any]) -> None:
    assert verify(token(payload=payload)).all == payload


def test_a_key_without_kid_is_used_if_it_is_the_only_one() -> None:
    text = token({"alg": "RS256"})
    assert verify(text, keys=KeySet.parse({"keys": [signing.rsa_jwk()]})).issuer == signing.ISSUER
    assert refusal(text) == ("signature", False)


SIGNED: list[tuple[str, dict[str, Any], Trust]] = [
    ("audience", {**PAYLOAD, "aud": "fcred_other"}, Trust()),
    ("audience", {**PAYLOAD, "aud": []}, Trust()),
    ("audience", {**PAYLOAD, "aud": {signing.AUDIENCE: 1}}, Trust()),
    ("audience", {**PAYLOAD, "aud": [[signing.AUDIENCE]]}, Trust()),
    ("audience", {**PAYLOAD, "aud": f"{signing.AUDIENCE}x"}, Trust()),
    ("expired", {**PAYLOAD, "exp": NOW - 60, "iat": NOW - 400}, Trust()),
    ("not_yet_valid", {**PAYLOAD, "nbf": NOW + 61}, Trust()),
    ("not_yet_valid", {**PAYLOAD, "iat": NOW + 61}, Trust()),
    ("claim:exp", {**PAYLOAD, "exp": NOW + 48 * 3600}, Trust()),
    ("claim:repository_id", {**PAYLOAD, "repository_id": "75"}, Trust()),
    ("claim:repository_id", without("repository_id"), Trust()),
    ("claim:repository_id", {**PAYLOAD, "repository_id": None}, Trust()),
    ("claim:ref", PAYLOAD, Trust(claims={"repository_id": "74", "ref": "refs/tags/*"})),
    ("owner", PAYLOAD, Trust(owner_claim="email")),
    ("owner", {**PAYLOAD, "email": "a@example.com"}, Trust(owner_claim="email")),
    ("owner", {**PAYLOAD, "email": "a@example.com", "email_verified": "true"}, Trust(owner_claim="email")),
    ("owner", {**PAYLOAD, "email": "a@example.com", "email_verified": 1}, Trust(owner_claim="email")),
    ("owner", {**PAYLOAD, "email": ["a@example.com"], "email_verified": True}, Trust(owner_claim="email")),
    ("owner", {**PAYLOAD, "login": ""}, Trust(owner_claim="login")),
    ("single_use", without("jti"), Trust(single_use=True)),
    ("single_use", {**PAYLOAD, "jti": 1}, Trust(single_use=True)),
    ("single_use", {**PAYLOAD, "jti": ""}, Trust(single_use=True)),
]


@pytest.mark.parametrize(("reason", "payload", "trust"), SIGNED)
def test_a_refusal_after_the_signature_has_a_reason(reason: str, payload: dict[str, Any], trust: Trust) -> None:
    assert refusal(token(payload=payload), trust) == (reason, True)


def test_the_owner_claim_names_the_owner() -> None:
    email = {**PAYLOAD, "email": "a@example.com", "email_verified": True}
    assert verify(token(payload=email), Trust(owner_claim="email")).owner_name == "a@example.com"
    assert verify(token(payload={**PAYLOAD, "login": "ada"}), Trust(owner_claim="login")).owner_name == "ada"


def _hmac_with_public_key(data: bytes) -> bytes:
    return hmac.digest(signing.rsa_jwk()["n"].encode(), data, "sha256")


def _with(**members: Any) -> str:
    return token({**HEADER, **members})


def _claim(name: str, value: Any) -> str:
    return token(payload={**PAYLOAD, name: value})


FORGED = {
    "empty": ("", "malformed"),
    "one part": ("a", "malformed"),
    "two parts": (token().rpartition(".")[0], "malformed"),
    "four parts": (f"{token()}.a", "malformed"),
    "no signature": (f"{token().rpartition('.')[0]}.", "malformed"),
    "padding": (f"{token()}=", "malformed"),
    "newline at the end": (f"{token()}\n", "malformed"),
    "space in a part": (token().replace(".", " .", 1), "malformed"),
    "standard base64": (f"{token()[:-4]}+/+/", "malformed"),
    "too long": (token(payload={**PAYLOAD, "a": "a" * 16_384}), "malformed"),
    "none": (token({"alg": "none", "kid": "rsa"}), "algorithm"),
    "None": (token({"alg": "None", "kid": "rsa"}), "algorithm"),
    "no alg": (token({"kid": "rsa"}), "algorithm"),
    "alg of another type": (token({"alg": ["RS256"], "kid": "rsa"}), "algorithm"),
    "HMAC with the public key": (token({"alg": "HS256", "kid": "rsa"}, PAYLOAD, _hmac_with_public_key), "algorithm"),
    "alg of another key type": (token({"alg": "ES256", "kid": "rsa"}, PAYLOAD, signing.sign_es256), "signature"),
    "alg of another curve": (token({"alg": "ES384", "kid": "ec"}, PAYLOAD, signing.sign_es256), "signature"),
    "alg of another padding": (token({"alg": "PS256", "kid": "rsa"}), "signature"),
    "kid of another key": (token({**HEADER, "kid": "ec"}), "signature"),
    "unknown kid": (token({**HEADER, "kid": "../../dev/null"}), "signature"),
    "kid of another type": (token({**HEADER, "kid": 1}), "malformed"),
    "kid twice": (token(inserted('"kid": "ed"', HEADER)), "malformed"),
    "alg twice": (token(inserted('"alg": "none"', HEADER)), "malformed"),
    "jwk": (_with(jwk=signing.rsa_jwk()), "malformed"),
    "jku": (_with(jku="https://evil.example/keys"), "malformed"),
    "x5u": (_with(x5u="https://evil.example/chain"), "malformed"),
    "crit": (_with(crit=["exp"]), "malformed"),
    "empty crit": (_with(crit=[]), "malformed"),
    "b64": (_with(b64=False), "malformed"),
    "zip": (_with(zip="DEF"), "malformed"),
    "enc": (_with(enc="A256GCM"), "malformed"),
    "header is a list": (token("[]"), "malformed"),
    "payload is a text": (token(payload='"a"'), "malformed"),
    "payload is not JSON": (token(payload="{"), "malformed"),
    "payload is not UTF-8": (signing.signed(f"{token().split('.')[0]}._w", signing.sign_rs256), "malformed"),
    "payload is deep": (token(payload="[" * 11_000), "malformed"),
    "lone surrogate": (token(payload=inserted('"a": "\\ud800"', PAYLOAD)), "malformed"),
    "changed payload": (".".join([token().split(".")[0], _claim("ref", "a").split(".")[1], "AAAA"]), "signature"),
    "signature of another token": (f"{_claim('ref', 'a').rpartition('.')[0]}.{token().split('.')[2]}", "signature"),
    "exp missing": (token(payload=without("exp")), "malformed"),
    "exp as text": (_claim("exp", str(NOW + 300)), "malformed"),
    "exp true": (_claim("exp", True), "malformed"),
    "exp null": (_claim("exp", None), "malformed"),
    "exp infinite": (token(payload=inserted('"exp": 1e999', without("exp"))), "malformed"),
    "exp NaN": (token(payload=inserted('"exp": NaN', without("exp"))), "malformed"),
    "exp of many digits": (token(payload=inserted(f'"exp": {"9" * 5000}', without("exp"))), "malformed"),
    "iat missing": (token(payload=without("iat")), "malformed"),
    "iat as text": (_claim("iat", str(NOW)), "malformed"),
    "nbf as text": (_claim("nbf", str(NOW)), "malformed"),
    "nbf null": (_claim("nbf", None), "malformed"),
    "iss missing": (token(payload=without("iss")), "malformed"),
    "iss as a list": (_claim("iss", [signing.ISSUER]), "malformed"),
    "iss of another": (_claim("iss", "https://gitlab.com"), "issuer"),
    "iss with a slash": (_claim("iss", f"{signing.ISSUER}/"), "issuer"),
    "aud missing": (token(payload=without("aud")), "malformed"),
    "sub missing": (token(payload=without("sub")), "malformed"),
    "sub empty": (_claim("sub", ""), "malformed"),
    "sub as a number": (_claim("sub", 1), "malformed"),
    "claim twice": (token(payload=inserted('"repository_id": "74"', {**PAYLOAD, "repository_id": "75"})), "malformed"),
    "inner name twice": (token(payload=inserted('"a": {"b": 1, "b": 2}', PAYLOAD)), "malformed"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_is_refused_before_its_signature_counts(name: str) -> None:
    text, reason = FORGED[name]
    assert refusal(text) == (reason, False)


@pytest.mark.parametrize(
    "jwk",
    [
        signing.rsa_jwk(use="enc"),
        signing.rsa_jwk(key_ops=["encrypt"]),
        signing.rsa_jwk(alg="RS512"),
        signing.rsa_jwk(kid="other"),
        signing.rsa_jwk(n="AA"),
        signing.rsa_jwk(e="AA"),
        signing.rsa_jwk(e="Ag"),
        signing.rsa_jwk(n=1),
        signing.ec_jwk(kid="rsa"),
        {"kty": "oct", "kid": "rsa", "k": "AA"},
        {"kty": ["RSA"], "kid": "rsa"},
        {},
        [],
        "rsa",
        None,
    ],
)
def test_an_unusable_key_verifies_nothing(jwk: Any) -> None:
    assert refusal(token(), keys=KeySet.parse({"keys": [jwk]}))[1] is False


def test_weak_keys_and_repeated_kids_are_ignored() -> None:
    short = signing.rsa_jwk("short", 1024)
    twice = [signing.rsa_jwk(), signing.ec_jwk("rsa")]
    found = KeySet.parse({"keys": [short, *twice, signing.ed_jwk()]})
    assert [key["kid"] for key in found.keys] == ["ed"]
    many = [*(signing.ed_jwk(f"ed{index}") for index in range(100)), signing.rsa_jwk()]
    assert len(KeySet.parse({"keys": many}).keys) == 100
    assert refusal(token(), keys=KeySet.parse({"keys": many})) == ("signature", False)


def test_private_members_of_a_key_are_dropped() -> None:
    assert "d" not in KeySet.parse({"keys": [signing.ed_jwk(d="AA")]}).keys[0]


@pytest.mark.parametrize("document", [None, [], {}, {"keys": {}}, {"keys": None}])
def test_a_document_that_is_no_key_set_is_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        KeySet.parse(document)


def test_another_issuer_is_refused_although_the_key_fits() -> None:
    assert refusal(token(), replace(Trust(), issuer="https://gitlab.com")) == ("issuer", False)
