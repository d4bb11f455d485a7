"""Session tokens: JWTs that Envoy verifies. Also builds the headers about the user for upstreams.

This file does no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.envoy.filters.sign_in import HEADERS, ISSUER
from edge.sign_in.provider.facts import Facts, Permission

MAX_NAME = 200  # maximum length of a percent-encoded user name or id, in characters
_LITERAL = " !#$&'()*+-./:;<=>?@[]^_`{|}~"


@dataclass(frozen=True)
class SigningKey:
    """The key that signs session tokens. `kid` is its id in the published key set."""

    kid: str
    private: ec.EllipticCurvePrivateKey


def make_claims(rule: SignInRule, facts: Facts, permission: Permission, *, now: float, lifetime: int) -> dict[str, Any]:
    """Return the claims of a session token. Values that the provider did not supply are left out."""
    user = {
        "provider": rule.provider,
        "user": _header(facts.subject),
        "email": permission.address,
        "name": _header(facts.name),
    }
    times = {"iat": int(now), "exp": int(now) + lifetime}
    return {"iss": ISSUER, "aud": rule.audience, **times, **{name: value for name, value in user.items() if value}}


def list_headers(claims: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers about the user that the upstream receives, from the claims of a session token."""
    return {header: str(claims[name]) for name, header in HEADERS.items() if name in claims}


def sign(claims: Mapping[str, Any], key: SigningKey) -> str:
    """Return a session token (JWT) with these claims, signed with the key."""
    return jwt.encode(dict(claims), key.private, algorithm="ES256", headers={"kid": key.kid})


def _header(text: str) -> str:
    """Return a text in percent-encoded UTF-8, truncated to at most MAX_NAME characters.

    The result never ends within the encoded bytes of a character.
    """
    encoded = ""
    for character in text:
        more = quote(character, safe=_LITERAL)
        if len(encoded) + len(more) > MAX_NAME:
            break
        encoded += more
    return encoded.strip()
