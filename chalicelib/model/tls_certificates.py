"""TLS certificates and the authorities of mutual TLS: what an edge serves, and which clients it believes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from chalicelib import clock
from chalicelib.model import details, kinds, records, texts
from chalicelib.model.records import Described, Traced
from chalicelib.storage import decoding, items, table, vault
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.items import Item


@dataclass(frozen=True, kw_only=True)
class TlsCertificate(Traced):
    """The stored form of an uploaded certificate: its PEM chain, leaf first, and fields read from the leaf."""

    certificate_pem: str
    issued_at: str | None = None
    subject_alternative_names: Mapping[str, list[str]] = field(default_factory=dict)
    not_before: str = ""
    not_after: str = ""
    key_usages: list[str] = field(default_factory=list)
    extended_key_usages: list[str] = field(default_factory=list)
    private_key_type: str = ""
    issuer_common_name: str = ""
    serial_number: str = ""
    subject_common_name: str = ""
    subject_organization: str = ""
    subject_organizational_unit: str = ""
    subject_locality: str = ""
    subject_province: str = ""
    subject_country: str = ""

    AUDITED = ("not_after",)
    PACKED = MappingProxyType({"certificate_pem": texts.CERTIFICATES})

    def audited_fields(self) -> dict[str, Any]:
        names = [name for kept in self.subject_alternative_names.values() for name in kept]
        return {
            **super().audited_fields(),
            "fingerprint": details.pem_fingerprint(self.certificate_pem),
            "names": names,
        }


@dataclass(frozen=True, kw_only=True)
class ClientAuthority(Described):
    """The stored form of an authority whose client certificates edges with mutual TLS accept."""

    ca_pem: str
    subject_common_name: str = ""
    not_before: str = ""
    not_after: str = ""
    key_usages: list[str] = field(default_factory=list)
    extended_key_usages: list[str] = field(default_factory=list)

    AUDITED = ("not_after",)
    PACKED = MappingProxyType({"ca_pem": texts.CERTIFICATES})

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "fingerprint": details.pem_fingerprint(self.ca_pem)}


@dataclass(frozen=True)
class ServedCertificate:
    """A certificate that an account uploaded, as the edge serves it. What an id stands for never changes."""

    account: str
    id: str
    chain: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    @staticmethod
    def of(item: Item) -> "ServedCertificate | None":
        """Return the certificate that an item holds, or None if it is malformed."""
        try:
            stored = records.decode(TlsCertificate, item)
            start, end = clock.parse(stored.not_before), clock.parse(stored.not_after)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)
            return None
        except ValueError:
            decoding.report(item.scope, item.id, MalformedRecord("TlsCertificate", "not_after", "must be a time"))
            return None
        names = tuple(stored.subject_alternative_names.get("dns_names", ()))
        return ServedCertificate(item.account, item.id, stored.certificate_pem, names, start, end)


@dataclass(frozen=True)
class SealedCertificate:
    """A certificate as the edge serves it, with its private key as the vault encrypted it."""

    certificate: ServedCertificate
    key: bytes = field(repr=False)


def read_certificates(account: str) -> list[SealedCertificate]:
    """Return the certificates that an account has uploaded, without malformed ones.

    Raises aws.Unavailable.
    """
    every = ((ServedCertificate.of(it), it) for it in table.every(items.scope(account, kinds.TLS_CERTIFICATES.path)))
    return [SealedCertificate(served, it.sealed.get("private_key", b"")) for served, it in every if served]


def open_private_key(sealed: SealedCertificate) -> bytes:
    """Return the private key of a certificate as PKCS#8 DER: do not keep it. Raises aws.Unavailable."""
    context = vault.context(sealed.certificate.account, sealed.certificate.id)
    return vault.unseal(sealed.key, context, bytes)
