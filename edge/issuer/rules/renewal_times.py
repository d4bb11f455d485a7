"""When a certificate is renewed: in the window of the CA (RFC 9773), or at a fraction of its lifetime. Pure.

Times are Unix seconds.
"""

import base64
import email.utils
import hashlib
from dataclasses import dataclass

from cryptography import x509

_DAY = 86400
_SHORT = 10 * _DAY  # a certificate with a shorter lifetime is renewed when half is left, any other at a third
_MIN_RECHECK, _MAX_RECHECK = 60, _DAY  # seconds until the window is requested again


@dataclass(frozen=True)
class Validity:
    """The validity of a certificate."""

    start: int
    end: int

    @property
    def lifetime(self) -> int:
        return self.end - self.start

    @property
    def urgent_at(self) -> int:
        """Return when a sixth of the lifetime is left: from then on its renewal comes first."""
        return self.end - self.lifetime // 6

    def is_late(self, now: int) -> bool:
        """Return whether at most a fifth of the lifetime is left, which raises an alarm."""
        return 5 * (self.end - now) <= self.lifetime


@dataclass(frozen=True)
class RenewalWindow:
    """The window in which the CA suggests to renew, and the seconds after which to request it again."""

    start: int
    end: int
    retry_after: int = 0


@dataclass(frozen=True)
class Plan:
    """When to renew, and when to request the window again, 0 for never."""

    renews_at: int
    rechecks_at: int

    @property
    def due_at(self) -> int:
        """Return when the certificate is due next."""
        return min(self.renews_at, self.rechecks_at) if self.rechecks_at else self.renews_at


def plan(certificate_id: str, validity: Validity, window: RenewalWindow | None, now: int) -> Plan:
    """Return when to renew a certificate. `window` is None if the CA suggests none."""
    if window is None:
        left = validity.lifetime // (2 if validity.lifetime < _SHORT else 3)
        return Plan(validity.end - left, 0)
    renews_at = window.start + int(_share(certificate_id) * max(0, window.end - window.start))
    return Plan(renews_at, now + max(_MIN_RECHECK, min(window.retry_after, _MAX_RECHECK)))


def parse_retry_after(retry_after: str, now: float) -> int:
    """Return the seconds of a Retry-After, which may be a date; 0 if it is absent or malformed."""
    if retry_after.strip().isdigit():
        return int(retry_after)
    try:
        return max(0, int(email.utils.parsedate_to_datetime(retry_after).timestamp() - now))
    except (TypeError, ValueError):
        return 0


def identify(certificate: x509.Certificate) -> str:
    """Return the identifier of a certificate in renewal information (RFC 9773, section 4.1)."""
    issuer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    serial = certificate.serial_number.to_bytes(certificate.serial_number.bit_length() // 8 + 1)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (issuer, serial))


def _share(certificate_id: str) -> float:
    """Return a number from 0 to 1, always the same for a certificate, so that its renewal time does not change."""
    return int.from_bytes(hashlib.sha256(certificate_id.encode()).digest()[:6]) / (1 << 48)
