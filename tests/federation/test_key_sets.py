"""Key sets of issuers: the keys that verify signatures, and those that are ignored."""

from typing import Any

import pytest

from chalicelib.federation import tokens
from chalicelib.federation.key_sets import KeySet
from chalicelib.federation.tokens import Claims, Rejected
from tests.federation import signing
from tests.federation.signing import NOW, Trust, token

KEYS = KeySet.parse({"keys": [signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk()]})


def verify(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> Claims:
    return tokens.verify(text, keys, trust or Trust(), NOW)


def refusal(text: str, trust: Trust | None = None, keys: KeySet = KEYS) -> tuple[str, bool]:
    """Return the reason of a refusal, and whether the token was signed."""
    with pytest.raises(Rejected) as rejected:
        verify(text, trust, keys)
    return rejected.value.reason, rejected.value.is_signed


def test_a_key_without_kid_is_used_if_it_is_the_only_one() -> None:
    text = token({"alg": "RS256"})
    assert verify(text, keys=KeySet.parse({"keys": [signing.rsa_jwk()]})).issuer == signing.ISSUER
    assert refusal(text) == ("signature", False)


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
        signing.rsa_jwk(kid="\ud800"),
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
    key_set = KeySet.parse({"keys": [short, *twice, signing.ed_jwk()]})
    assert [key["kid"] for key in key_set.keys] == ["ed"]
    many = [*(signing.ed_jwk(f"ed{index}") for index in range(100)), signing.rsa_jwk()]
    assert len(KeySet.parse({"keys": many}).keys) == 100
    assert refusal(token(), keys=KeySet.parse({"keys": many})) == ("signature", False)


def test_private_members_of_a_key_are_dropped() -> None:
    assert "d" not in KeySet.parse({"keys": [signing.ed_jwk(d="AA")]}).keys[0]


@pytest.mark.parametrize("document", [None, [], {}, {"keys": {}}, {"keys": None}])
def test_a_document_that_is_no_key_set_is_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        KeySet.parse(document)


@pytest.mark.parametrize("name", ["kid", "alg", "n"])
def test_a_key_with_text_that_cannot_be_stored_is_ignored(name: str) -> None:
    members: dict[str, Any] = {name: "\ud800"}
    assert KeySet.parse({"keys": [signing.rsa_jwk(**members)]}).keys == ()
