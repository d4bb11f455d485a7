"""Claims of id tokens."""

import base64
import json
from typing import Any

import pytest

from edge.sign_in.provider import id_tokens
from edge.sign_in.provider.id_tokens import InvalidIdToken

CLAIMS = {"iss": "https://id.example", "aud": "app", "nonce": "n", "exp": 2000, "sub": "1"}


def read(claims: dict[str, Any], issuer: str = "https://id.example") -> Any:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return id_tokens.read_claims(f"e30.{payload}.x", issuer=issuer, client_id="app", nonce="n", now=1000)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"aud": ["app"]}, ""),
        ({"aud": ["app", "other"], "azp": "app"}, ""),
        ({"aud": ["app", "other"]}, "azp"),
        ({"azp": None}, "azp"),
        ({"aud": []}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": None}, "iss"),
        ({"nonce": None}, "nonce"),
        ({"exp": 900}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": float("nan")}, "exp"),
        ({"sub": ""}, "sub"),
        ({"sub": 1}, "sub"),
    ],
)
def test_each_claim_must_be_meant_for_this_sign_in(change: dict[str, Any], wrong: str) -> None:
    claims = {**CLAIMS, **change}
    if not wrong:
        assert read(claims) == claims
        return
    with pytest.raises(InvalidIdToken, match=f"^{wrong}$"):
        read(claims)


def test_the_tenant_of_the_token_is_part_of_its_issuer() -> None:
    issuer = "https://id.example/{tid}/v2.0"
    claims = {**CLAIMS, "tid": "t1", "iss": "https://id.example/t1/v2.0"}
    assert read(claims, issuer) == claims
    for wrong in ({"tid": "t2"}, {"tid": None}, {"iss": "https://id.example/t2/v2.0"}):
        with pytest.raises(InvalidIdToken):
            read({**claims, **wrong}, issuer)


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c.d", "e30.W10.x", "e30.!.x"])
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidIdToken, match="form"):
        id_tokens.read_claims(token, issuer="i", client_id="app", nonce=None, now=0)
