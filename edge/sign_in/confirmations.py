"""The hosts for which a visitor has confirmed the managed application: an encrypted cookie of the service's host."""

import base64
import binascii
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from edge.sign_in import cookies

COOKIE = "__Host-confirmed"
TOKEN_COOKIE = "__Host-confirm"  # noqa: S105  # a name
VALIDITY = 30 * 24 * 60 * 60  # seconds
_MAX_SITES = 50
_NONCE = 12  # bytes
_PURPOSE = b"confirmations"  # a state cannot be used as this cookie


@dataclass(frozen=True)
class Confirmations:
    """Confirmed sites (account and host), with the Unix second until which each counts."""

    sites: Mapping[str, int] = field(default_factory=dict)

    def adding(self, site: str, now: float) -> "Confirmations":
        """Return these with one more site. The oldest make room."""
        added = {**{name: end for name, end in self.sites.items() if name != site}, site: int(now) + VALIDITY}
        return Confirmations(dict(list(added.items())[-_MAX_SITES:]))


def read(text: str, keys: Mapping[str, bytes], now: float) -> Confirmations:
    """Return the confirmations of a cookie. A malformed one has none."""
    kid, _, sealed = text.partition(".")
    try:
        data = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
        found = json.loads(AESGCM(keys[kid]).decrypt(data[:_NONCE], data[_NONCE:], _PURPOSE))
    except (KeyError, ValueError, binascii.Error, InvalidTag):
        return Confirmations()
    return Confirmations({host: end for host, end in found.items() if end > now})


def build_cookie(made: Confirmations, kid: str, key: bytes) -> str:
    """Return the Set-Cookie header of confirmations."""
    nonce = os.urandom(_NONCE)
    sealed = nonce + AESGCM(key).encrypt(nonce, json.dumps(dict(made.sites)).encode(), _PURPOSE)
    value = f"{kid}.{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"
    return cookies.build(COOKIE, value, lifetime=VALIDITY)


def token_for(cookie: str, nonce: str) -> str:
    """Return the token of a confirmation page for a browser and a sign-in."""
    return hmac.new(cookie.encode(), nonce.encode(), hashlib.sha256).hexdigest()
