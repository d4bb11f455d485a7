"""The headers and the cookie of a session that may pass."""

import secrets
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from chalicelib import ids
from edge.sign_in import cookies
from edge.sign_in.provider.facts import Permission
from edge.sign_in.session import passes
from edge.sign_in.session.decisions import Access, Decision
from edge.sign_in.session.tokens import SigningKey
from tests.edge.sign_in.samples import RULE, SESSION


@pytest.mark.parametrize("lifetime", [0, 30])
def test_a_token_that_would_outlive_a_limit_is_not_made(lifetime: int) -> None:
    key = SigningKey("kid", ec.generate_private_key(ec.SECP256R1()))
    decision = Decision(Access.PASS, permission=Permission("ada@example.com"), lifetime=lifetime)
    built_pass = passes.make_pass(SESSION, RULE, decision, key, 1000)
    assert built_pass.headers["tunnel-auth-user-email"] == "ada@example.com"
    assert len(built_pass.cookies) == bool(lifetime)
    for cookie in built_pass.cookies:
        name, _, value = cookie.partition(";")[0].partition("=")
        assert name == RULE.session_cookie
        claims = jwt.decode(value, options={"verify_signature": False})
        assert (claims["aud"], claims["exp"] - claims["iat"]) == (RULE.audience, 30)


def test_the_cookies_of_a_route_take_at_most_two_and_a_half_kib() -> None:
    """A browser drops a cookie above 4 KiB, and servers refuse long headers."""
    rule = replace(RULE, provider="microsoft", cookie_prefix="p" * 64, route=ids.new("edghtsrt"), digest="d" * 16)
    session = replace(SESSION, subject="\0" * 1000, name="\u20ac" * 1000)  # each character is encoded
    decision = Decision(Access.PASS, permission=Permission(f"{'a' * 242}@example.com"), lifetime=59)
    key = SigningKey("6a2b3c4d", ec.generate_private_key(ec.SECP256R1()))
    built_pass = passes.make_pass(session, rule, decision, key, 1_900_000_000)
    login = cookies.build(rule.login_cookie, secrets.token_urlsafe(16), lifetime=cookies.LOGIN_TIME)
    all_cookies = [*built_pass.cookies, cookies.build(rule.id_cookie, secrets.token_urlsafe(32)), login]
    assert sum(map(len, all_cookies)) <= 2560
