"""The operator's certificate on an edge host. It comes from the settings or the ACME issuer.

If neither has a certificate, the edge's own authority for a local domain issues one.
"""

import base64
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from chalicelib.model.names import operator_certificate
from chalicelib.model.names.operator_certificate import OpenedCertificate
from edge.link import authority
from edge.link.authority import KeyPair
from edge.link.renewal import RenewedPair
from edge.process import files, log
from edge.process.settings import Settings


class OperatorPair:
    """The operator's certificate. Unless EDGE_CERTIFICATE is set, the issuer's certificate is used until it expires."""

    def __init__(self, settings: Settings) -> None:
        self._is_configured = bool(settings.certificate)
        self._own = _configured(settings) if settings.certificate else _local(settings)
        self._issued: tuple[KeyPair, datetime] | None = None

    def pair(self) -> KeyPair:
        """Return the current certificate and key."""
        if self._issued and datetime.now(UTC) < self._issued[1]:
            return self._issued[0]
        return self._own.pair()

    def refresh(self) -> None:
        """Read the issuer's certificate. Raises Unavailable."""
        if self._is_configured:
            return
        certificate = operator_certificate.read_opened()
        try:
            self._issued = _decode(certificate) if certificate else None
        except ValueError as error:
            log.event("certificate_unreadable", id="operator", reason=type(error).__name__)


def _decode(certificate: OpenedCertificate) -> tuple[KeyPair, datetime]:
    """Return the key pair of a certificate, and the time at which it expires. Raises ValueError."""
    leaf = x509.load_pem_x509_certificate(certificate.chain.encode())
    lines = base64.encodebytes(certificate.key).decode()
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n"
    return KeyPair(certificate.chain, key), leaf.not_valid_after_utc


def _configured(settings: Settings) -> RenewedPair:
    chain, key = Path(settings.certificate), Path(settings.private_key)
    return RenewedPair(lambda: KeyPair(chain.read_text(), key.read_text()), [chain, key])


def _local(settings: Settings) -> RenewedPair:
    local = authority.load_or_make(settings.directory / "authority.pem", "Local tunnels", settings.tunnel_domain)
    files.replace(settings.directory / "authority.crt", local.pem.encode())
    return RenewedPair(lambda: local.issue(f"*.{settings.tunnel_domain}", settings.tunnel_domain))
