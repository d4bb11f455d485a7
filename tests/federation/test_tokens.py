"""Verification of tokens: valid ones, the reasons of refusals, and forged or odd tokens."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.federation import tokens
from chalicelib.federation.key_sets import KeySet
from chalicelib.federation.tokens import Claims, Rejected, Unverified
from tests.federation import forging, signing
from tests.federation.forging import without
from tests.federation.signing import NOW, PAYLOAD, Trust, token

KEYS = KeySet.parse({"keys": [signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk()]})


def verify(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> Claims:
    return tokens.verify(text, keys, trust or Trust(), NOW)


def refusal(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> tuple[str, bool]:
    """Return the reason of a refusal, and whether the token was signed."""
    with pytest.raises(Rejected) as rejected:
        verify(text, trust, keys)
    return rejected.value.reason, rejected.value.is_signed


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
    ("claim:repository_id", {**PAYLOAD, "repository_id": 10**4000}, Trust()),
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


@pytest.mark.parametrize("times", [{"exp": 10**400, "iat": 1.5}, {"exp": 1.5, "iat": -(10**400)}, {"nbf": -(10**400)}])
def test_times_that_no_clock_shows_are_refused(times: dict[str, Any]) -> None:
    assert refusal(token(payload={**PAYLOAD, **times})) == ("malformed", False)


FORGED = forging.forge_tokens(PAYLOAD)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_is_refused_before_its_signature_counts(name: str) -> None:
    text, reason = FORGED[name]
    assert refusal(text) == (reason, False)


def test_another_issuer_is_refused_although_the_key_fits() -> None:
    assert refusal(token(), replace(Trust(), issuer="https://gitlab.com")) == ("issuer", False)
