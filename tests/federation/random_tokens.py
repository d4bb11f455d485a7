"""Tokens with any header and any claims, and a restatement of the rules that accept them."""

from typing import Any

from hypothesis import strategies as st

from chalicelib.federation.key_sets import KeySet
from tests.federation import signing
from tests.federation.signing import AUDIENCE, ISSUER, NOW, PAYLOAD, Trust

KEYS = KeySet.parse({"keys": [signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk()]})
SIGNERS = {"RS256": signing.sign_rs256, "PS256": signing.sign_ps256, "ES256": signing.sign_es256}
KIDS = {"RS256": "rsa", "PS256": "rsa", "ES256": "ec"}
TRUST = Trust(owner_claim="email", single_use=True)

_times = st.integers(NOW - 90_000, NOW + 90_000) | st.sampled_from([NOW - 61, NOW - 60, NOW - 59, NOW + 60, NOW + 61])
_scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_odd = _scalars | st.lists(_scalars, max_size=3) | st.dictionaries(st.text(max_size=3), _scalars, max_size=2)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "iss": st.sampled_from([ISSUER, f"{ISSUER}/"]) | _odd,
    "aud": st.sampled_from([AUDIENCE, [AUDIENCE], ["a", AUDIENCE], "a"]) | _odd,
    "sub": st.text(max_size=3) | _odd,
    "exp": _times | st.just(str(NOW + 300)) | _odd,
    "iat": _times | _odd,
    "nbf": _times | _odd,
    "jti": st.text(max_size=3) | _odd,
    "repository_id": st.sampled_from(["74", 74, 74.0, ["74"], [[74]], "74\n"]) | _odd,
    "email": st.text(max_size=3) | _odd,
    "email_verified": st.sampled_from([True, "true", 1]) | _odd,
}
GOOD = {**PAYLOAD, "email": "a@example.com", "email_verified": True}
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "alg": st.sampled_from([*SIGNERS, "none", "HS256", "RS512"]) | _odd,
        "kid": st.sampled_from(["rsa", "ec", "ed"]) | _odd,
        **dict.fromkeys(("crit", "b64", "jku", "jwk", "x5u", "zip", "enc", "typ", "x5c", "cty"), _odd),
    },
)


def is_acceptable(header: Any, payload: Any, signer: str, is_repeated: bool) -> bool:
    """Restate the rules: which tokens a credential accepts that were signed with `signer`."""
    forbidden = {"crit", "b64", "jku", "jwk", "x5u", "zip", "enc"}
    if is_repeated or header.get("alg") != signer or header.get("kid") != KIDS[signer] or forbidden & set(header):
        return False
    numbers = [payload[name] for name in ("exp", "iat", "nbf") if name in payload]
    if "exp" not in payload or "iat" not in payload or not all(type(number) in (int, float) for number in numbers):
        return False
    audience = payload.get("aud")
    repository = payload.get("repository_id")
    return (
        payload.get("iss") == ISSUER
        and (audience == AUDIENCE or (isinstance(audience, list) and AUDIENCE in audience))
        and isinstance(payload.get("sub"), str)
        and payload["sub"] != ""
        and payload["exp"] > NOW - 60
        and payload["iat"] <= NOW + 60
        and payload.get("nbf", NOW) <= NOW + 60
        and payload["exp"] - payload["iat"] <= 86_400
        and any(
            (type(entry) is int and entry == 74) or (type(entry) is str and entry == "74")
            for entry in (repository if isinstance(repository, list) else [repository])
        )
        and isinstance(payload.get("email"), str)
        and payload["email"] != ""
        and payload.get("email_verified") is True
        and isinstance(payload.get("jti"), str)
        and payload["jti"] != ""
    )
