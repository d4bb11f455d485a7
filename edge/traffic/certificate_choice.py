"""The choice of the certificate for a host name. Pure.

One that was chosen for the reservation of a host wins while it covers the host and runs; else it is as if none had been
chosen, since every visitor would refuse it.
"""

from collections.abc import Iterable
from datetime import datetime

from chalicelib.model.tls_certificates import ServedCertificate


def choose(host: str, certificates: Iterable[ServedCertificate], now: datetime, *, chosen: str = "") -> str | None:
    """Return the id of the certificate for a host, None where none of them covers it now.

    `chosen` is the id that its reservation names. Then one of the very name comes before one of a wildcard, and of
    several the one that runs longest.
    """
    fitting = [it for it in certificates if it.not_before <= now < it.not_after and covers_any(it, host)]
    if not fitting:
        return None
    return max(fitting, key=lambda it: (it.id == chosen, _names(it, host), it.not_after, it.id)).id


def covers_any(certificate: ServedCertificate, host: str) -> bool:
    """Tell whether a certificate stands for a host name."""
    return any(covers(pattern, host) for pattern in certificate.names)


def covers(pattern: str, host: str) -> bool:
    """Tell whether a name in a certificate stands for a host name; a wildcard is one label (RFC 6125)."""
    pattern = pattern.lower()
    return pattern == host or (pattern.startswith("*.") and pattern[2:] == host.partition(".")[2])


def _names(certificate: ServedCertificate, host: str) -> bool:
    return any(pattern.lower() == host for pattern in certificate.names)
