"""Session tokens and the headers for upstreams."""

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from edge.sign_in.provider.facts import Facts, Permission
from edge.sign_in.session import tokens
from edge.sign_in.session.tokens import SigningKey
from tests.edge.sign_in.samples import RULE


def test_a_token_names_the_route_its_module_and_the_user() -> None:
    facts = Facts("1", ("a@b",), "Ada")
    claims = tokens.make_claims(RULE, facts, Permission("a@b"), now=1000.9, lifetime=9)
    assert claims == {
        "iss": "sign-in",
        "aud": "edghtsrt_abcdef.digest",
        "iat": 1000,
        "exp": 1009,
        "provider": "github",
        "user": "1",
        "email": "a@b",
        "name": "Ada",
    }
    key = SigningKey("kid", ec.generate_private_key(ec.SECP256R1()))
    text = tokens.sign(claims, key)
    assert jwt.get_unverified_header(text) == {"alg": "ES256", "kid": "kid", "typ": "JWT"}
    checked = jwt.decode(
        text, key.private.public_key(), ["ES256"], audience=RULE.audience, options={"verify_exp": False}
    )
    assert checked == claims


def test_headers_are_printable_ascii_and_absent_without_a_value() -> None:
    name = "Ädä\r\nx-admin: 1" + "ü" * 200
    claims = tokens.make_claims(RULE, Facts("1\n2", (), name), Permission(), now=0, lifetime=1)
    headers = tokens.list_headers(claims)
    assert headers["tunnel-auth-user-id"] == "1%0A2"
    assert headers["tunnel-auth-user-name"].startswith("%C3%84d%C3%A4%0D%0Ax-admin: 1%C3%BC")
    assert all(header.isascii() and header.isprintable() and len(header) <= 200 for header in headers.values())
    assert "tunnel-auth-user-email" not in headers
