"""Parses the id tokens of providers and checks their claims.

Id tokens come directly from the provider's token endpoint over TLS, so their signature is not checked. OpenID Connect
Core 3.1.3.7, item 6 permits that.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

CLOCK_TOLERANCE = 60  # seconds by which the clocks of a provider and this host may differ


class InvalidIdToken(Exception):
    """An id token is malformed, or not meant for this sign-in. The message names the claim, but not its value."""


def read_claims(token: str, *, issuer: str, client_id: str, nonce: str | None, now: float) -> Mapping[str, Any]:
    """Return the claims of an id token. Raises InvalidIdToken.

    The other parameters are the expected values. In `issuer`, {tid} is replaced by the claim `tid`, Microsoft's tenant.
    `nonce` is None after a refresh, and for providers that do not support a nonce.
    """
    claims = _decode(token)
    expected = issuer.replace("{tid}", claims["tid"]) if isinstance(claims.get("tid"), str) else issuer
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    checks = {
        "iss": claims.get("iss") == expected,
        "aud": client_id in audiences,
        "azp": claims.get("azp", client_id) == client_id and (len(audiences) == 1 or "azp" in claims),
        "nonce": nonce is None or claims.get("nonce") == nonce,
        "exp": _is_number(claims.get("exp")) and claims["exp"] > now - CLOCK_TOLERANCE,
        "sub": isinstance(claims.get("sub"), str) and bool(claims["sub"]),
    }
    if wrong := next((name for name, is_right in checks.items() if not is_right), None):
        raise InvalidIdToken(wrong)
    return claims


def _decode(token: str) -> Mapping[str, Any]:
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, binascii.Error):
        raise InvalidIdToken("form") from None
    if not isinstance(claims, dict):
        raise InvalidIdToken("form")
    return claims


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
