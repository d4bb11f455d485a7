"""TLS certificates that edges serve, and the authorities of client certificates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from chalicelib import clock, crypto
from chalicelib.model.audit import details
from chalicelib.model.base import kinds, packing, records
from chalicelib.model.base.records import Described, Traced
from chalicelib.model.base.switches import WITHOUT_KEY
from chalicelib.storage import vault
from chalicelib.storage.records import decoding, items, table
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

if TYPE_CHECKING:
    from chalicelib.crypto.chains import Chain

# the attribute of an automatic certificate that contains the id of its reserved domain; responses do not show it
RESERVATION = "reserved_domain"


@dataclass(frozen=True, kw_only=True)
class TlsCertificate(Traced):
    """The stored form of a certificate. It has the PEM chain, leaf first, and fields of the leaf.

    `issued_at` is None for an uploaded certificate.
    """

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
    PACKED = MappingProxyType({"certificate_pem": packing.CERTIFICATES})

    @classmethod
    def of_chain(cls, chain: "Chain", description: str = "", metadata: str = "", issued_at: str | None = None) -> Self:
        """Return the stored form of a chain of certificates, with fields of its leaf."""
        leaf, subject = chain.leaf, chain.leaf.subject
        return cls(
            description=description,
            metadata=metadata,
            certificate_pem=chain.pem,
            issued_at=issued_at,
            subject_alternative_names={"dns_names": leaf.dns_names, "ips": leaf.ips},
            not_before=clock.rfc3339(leaf.not_before),
            not_after=clock.rfc3339(leaf.not_after),
            key_usages=leaf.key_usages,
            extended_key_usages=leaf.extended_key_usages,
            private_key_type=crypto.keys.key_type(leaf.public_key),
            issuer_common_name=leaf.issuer.common_name,
            serial_number=leaf.serial_number,
            subject_common_name=subject.common_name,
            subject_organization=subject.organization,
            subject_organizational_unit=subject.organizational_unit,
            subject_locality=subject.locality,
            subject_province=subject.province,
            subject_country=subject.country,
        )

    def audited_fields(self) -> dict[str, Any]:
        names = [name for of_type in self.subject_alternative_names.values() for name in of_type]
        return {
            **super().audited_fields(),
            "fingerprint": details.pem_fingerprint(self.certificate_pem),
            "names": names,
        }


@dataclass(frozen=True, kw_only=True)
class ClientAuthority(Described):
    """The stored form of an authority that edges with mutual TLS trust."""

    ca_pem: str
    subject_common_name: str = ""
    not_before: str = ""
    not_after: str = ""
    key_usages: list[str] = field(default_factory=list)
    extended_key_usages: list[str] = field(default_factory=list)

    AUDITED = ("not_after",)
    PACKED = MappingProxyType({"ca_pem": packing.CERTIFICATES})

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "fingerprint": details.pem_fingerprint(self.ca_pem)}


@dataclass(frozen=True)
class ServedCertificate:
    """A certificate (uploaded or issued automatically) as the edge serves it.

    The chain of a certificate never changes: a new chain is a new certificate with another id.
    """

    account: str
    id: str
    chain: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    @staticmethod
    def of(item: Item) -> "ServedCertificate | None":
        """Return the certificate in an item, or None if it is malformed."""
        try:
            stored = records.decode(TlsCertificate, item)
            start, end = clock.parse(stored.not_before), clock.parse(stored.not_after)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)
            return None
        except ValueError:
            decoding.report(
                item.scope, item.id, MalformedRecord("TlsCertificate", "not_after", "must be an RFC 3339 time")
            )
            return None
        names = tuple(stored.subject_alternative_names.get("dns_names", ()))
        return ServedCertificate(item.account, item.id, stored.certificate_pem, names, start, end)


@dataclass(frozen=True)
class SealedCertificate:
    """A certificate, and its private key encrypted with KMS."""

    certificate: ServedCertificate
    key: bytes = field(repr=False)


def read_certificates(account: str) -> list[SealedCertificate]:
    """Return the certificates of an account that edges can serve. Raises aws.Unavailable.

    Malformed certificates, and certificates without a private key, are left out.
    """
    certificate_items = table.read_all(items.scope(account, kinds.TLS_CERTIFICATES.path))
    return [certificate for certificate in map(_sealed_certificate, certificate_items) if certificate]


def open_private_key(sealed: SealedCertificate) -> bytes:
    """Return the private key of a certificate as PKCS#8 DER. Do not store it. Raises aws.Unavailable."""
    context = vault.context(sealed.certificate.account, sealed.certificate.id)
    return vault.unseal(sealed.key, context, bytes)


def _sealed_certificate(item: Item) -> SealedCertificate | None:
    try:
        served = None if item.unseen.get(WITHOUT_KEY) else ServedCertificate.of(item)
        return SealedCertificate(served, item.sealed["private_key"]) if served else None
    except MalformedRecord as malformed:
        decoding.report(item.scope, item.id, malformed)
        return None
