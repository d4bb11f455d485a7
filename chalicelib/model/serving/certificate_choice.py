"""The choice of the certificate for a host name. This file does no I/O.

A reservation can name a certificate. This certificate is used while it is valid and covers the host. At other times
browsers would reject it, so another certificate is chosen automatically.
"""

from collections.abc import Iterable
from datetime import datetime

from chalicelib.model.tls.tls_certificates import ServedCertificate


def choose(host: str, certificates: Iterable[ServedCertificate], now: datetime, *, chosen: str = "") -> str | None:
    """Return the id of the best certificate for a host. Return None if none covers it now.

    `chosen`, the id in the host's reservation, comes first. Then an exact name comes before a wildcard, and a later
    expiry before an earlier one.
    """
    valid = (certificate for certificate in certificates if certificate.not_before <= now < certificate.not_after)

    def rank(certificate: ServedCertificate) -> tuple[bool, bool, datetime, str]:
        return certificate.id == chosen, _names(certificate, host), certificate.not_after, certificate.id

    best = max((certificate for certificate in valid if covers_any(certificate, host)), key=rank, default=None)
    return best.id if best else None


def covers_any(certificate: ServedCertificate, host: str) -> bool:
    """Return whether a certificate covers a host name."""
    return any(covers(pattern, host) for pattern in certificate.names)


def covers(pattern: str, host: str) -> bool:
    """Return whether a certificate's name covers a host. A wildcard matches one label (RFC 6125)."""
    pattern = pattern.lower()
    return pattern == host or (pattern.startswith("*.") and pattern[2:] == host.partition(".")[2])


def _names(certificate: ServedCertificate, host: str) -> bool:
    return any(pattern.lower() == host for pattern in certificate.names)
