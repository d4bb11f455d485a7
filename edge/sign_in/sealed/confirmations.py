"""The sites that a visitor allows to use managed OAuth applications, in an encrypted cookie.

A managed OAuth application belongs to the operator. Routes of all accounts can use it.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.sign_in import cookies
from edge.sign_in.sealed import sealing

COOKIE = "__Host-confirmed"
TOKEN_COOKIE = "__Host-confirm"  # noqa: S105  # a name
VALIDITY = 30 * 24 * 60 * 60  # seconds until a confirmation expires
_MAX_SITES = 50
_DIGEST = 12  # bytes of a site's digest
_PURPOSE = b"confirmations"  # without a purpose, the encrypted state of a sign-in would be accepted as this cookie


@dataclass(frozen=True)
class Confirmations:
    """The sites that a visitor has confirmed. A site is a host together with its account.

    `sites` has the Unix second at which each confirmation expires, by a digest of the site. With names instead of
    digests, the cookie could exceed the 4 KiB that browsers accept.
    """

    sites: Mapping[str, int] = field(default_factory=dict)

    def has(self, site: str) -> bool:
        """Return whether a site is confirmed."""
        return _digest(site) in self.sites

    def add(self, site: str, now: float) -> "Confirmations":
        """Return these confirmations, with the confirmation of one more site added.

        If there are more than _MAX_SITES, the oldest are left out.
        """
        digest = _digest(site)
        added = {**{name: end for name, end in self.sites.items() if name != digest}, digest: int(now) + VALIDITY}
        return Confirmations(dict(list(added.items())[-_MAX_SITES:]))


def read(text: str, keys: Mapping[str, bytes], now: float) -> Confirmations:
    """Return the unexpired confirmations in a cookie. A malformed cookie has no confirmations."""
    plain = sealing.unseal(text, keys, _PURPOSE)
    sites = json.loads(plain) if plain else {}
    return Confirmations({host: end for host, end in sites.items() if end > now})


def build_cookie(confirmations: Confirmations, kid: str, key: bytes) -> str:
    """Return the Set-Cookie header that stores confirmations."""
    value = sealing.seal(json.dumps(dict(confirmations.sites)).encode(), kid, key, _PURPOSE)
    return cookies.build(COOKIE, value, lifetime=VALIDITY)


def token_for(cookie: str, nonce: str) -> str:
    """Return the CSRF token of a confirmation page. The token is valid for one browser and one sign-in."""
    return hmac.new(cookie.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def _digest(site: str) -> str:
    return sealing.encode(hashlib.sha256(site.encode()).digest()[:_DIGEST])
