"""The headers and the cookie of a session that may pass."""

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from edge.sign_in.provider.facts import Permission
from edge.sign_in.session import passes
from edge.sign_in.session.decisions import Access, Decision
from edge.sign_in.session.tokens import SigningKey
from tests.edge.sign_in.samples import RULE, SESSION


@pytest.mark.parametrize("lifetime", [0, 30])
def test_a_token_that_would_outlive_a_limit_is_not_made(lifetime: int) -> None:
    key = SigningKey("kid", ec.generate_private_key(ec.SECP256R1()))
    decision = Decision(Access.PASS, permission=Permission("ada@example.com"), lifetime=lifetime)
    made = passes.make_pass(SESSION, RULE, decision, key, 1000)
    assert made.headers["tunnel-auth-user-email"] == "ada@example.com"
    assert len(made.cookies) == bool(lifetime)
    for cookie in made.cookies:
        name, _, value = cookie.partition(";")[0].partition("=")
        assert name == RULE.session_cookie
        claims = jwt.decode(value, options={"verify_signature": False})
        assert (claims["aud"], claims["exp"] - claims["iat"]) == (RULE.audience, 30)
