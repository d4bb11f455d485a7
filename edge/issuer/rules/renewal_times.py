"""Decides when to renew a certificate. The CA's window (RFC 9773) or a fraction of the lifetime decides.

Times are Unix seconds. This file does no I/O.
"""

import base64
import email.utils
import hashlib
from dataclasses import dataclass

from cryptography import x509

_DAY = 86400
# Lifetime in seconds. A certificate with a shorter lifetime is renewed when half of its lifetime is left, and any other
# certificate when a third is left.
_SHORT = 10 * _DAY
_MIN_RECHECK, _MAX_RECHECK = 60, _DAY  # the least and the most seconds until the CA's window is requested again


@dataclass(frozen=True)
class Validity:
    """The validity period of a certificate, from its start to its end."""

    start: int
    end: int

    @property
    def lifetime(self) -> int:
        return self.end - self.start

    @property
    def urgent_at(self) -> int:
        """Return the Unix second at which a sixth of the lifetime is left.

        From then on, the renewal comes before all other orders.
        """
        return self.end - self.lifetime // 6

    def is_late(self, now: int) -> bool:
        """Return whether at most a fifth of the lifetime is left, which raises the operator's alarm."""
        return 5 * (self.end - now) <= self.lifetime


@dataclass(frozen=True)
class RenewalWindow:
    """The window in which the CA suggests to renew.

    After `retry_after` seconds, the issuer should request the window again.
    """

    start: int
    end: int
    retry_after: int = 0


@dataclass(frozen=True)
class Plan:
    """The next renewal of a certificate, and the next request for the CA's window.

    `rechecks_at` is 0 if the window is not requested again.
    """

    renews_at: int
    rechecks_at: int

    @property
    def due_at(self) -> int:
        """Return when the issuer must handle the certificate next."""
        return min(self.renews_at, self.rechecks_at) if self.rechecks_at else self.renews_at


def plan(certificate_id: str, validity: Validity, window: RenewalWindow | None, now: int) -> Plan:
    """Return when to renew a certificate. `window` is None without a suggestion from the CA."""
    if window is None:
        margin = validity.lifetime // (2 if validity.lifetime < _SHORT else 3)
        return Plan(validity.end - margin, 0)
    renews_at = window.start + int(_share(certificate_id) * max(0, window.end - window.start))
    return Plan(renews_at, now + max(_MIN_RECHECK, min(window.retry_after, _MAX_RECHECK)))


def parse_retry_after(retry_after: str, now: float) -> int:
    """Return the seconds in a Retry-After header, which can be a date. Return 0 if it is absent or malformed."""
    if retry_after.strip().isdigit():
        return int(retry_after)
    try:
        return max(0, int(email.utils.parsedate_to_datetime(retry_after).timestamp() - now))
    except (TypeError, ValueError):
        return 0


def identify(certificate: x509.Certificate) -> str:
    """Return the identifier by which ACME renewal information names a certificate (RFC 9773, section 4.1)."""
    issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    serial = certificate.serial_number.to_bytes(certificate.serial_number.bit_length() // 8 + 1)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (issuer, serial))


def _share(certificate_id: str) -> float:
    """Return the point of the CA's window at which to renew, from 0 to 1.

    The point is always the same for a certificate, and differs between certificates.
    """
    return int.from_bytes(hashlib.sha256(certificate_id.encode()).digest()[:6]) / (1 << 48)
