"""TLS certificates (SPEC 2.7). Most response fields are read from the leaf. The private key is never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.names import issued_certificates
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls.tls_certificates import TlsCertificate
from chalicelib.schema.fields import DescribedShape, Timestamp, TracedShape
from chalicelib.schema.rules import Plain, WithData
from chalicelib.schema.shapes import Shape
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table, writes
from chalicelib.storage.records.items import Item

_MAX_CHAIN = 64  # the most KiB of PEM text
_IN_USE = (
    "The reserved domain {0} uses this certificate: remove the certificate or the certificate policy from that domain "
    "first."
)


def _require_pem(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string in PEM format")
    return value


def _parse_chain(value: Any) -> crypto.chains.Chain:
    return crypto.chains.read(_require_pem(value), _MAX_CHAIN * 1024)


def _parse_private_key(value: Any) -> crypto.keys.PrivateKey:
    return crypto.private_keys.read(_require_pem(value))


def _is_of_the_leaf(key: crypto.keys.PrivateKey, above: Mapping[str, Any]) -> crypto.keys.PrivateKey:
    chain: crypto.chains.Chain | None = above.get("certificate_pem")
    if chain and key.public_key() != chain.leaf.public_key:
        raise ValueError("must be the private key of the first certificate in certificate_pem")
    return key


class TLSCreate(DescribedShape):
    certificate_pem: Annotated[
        crypto.chains.Chain, Plain(_parse_chain, {"minLength": 1, "format": "certificate-chain"})
    ]
    f"""Chain of PEM-encoded certificates, leaf first, each signed by the next; at most {_MAX_CHAIN} KiB together.
    A leaf that requires OCSP stapling (must-staple) is rejected."""

    private_key_pem: Annotated[
        crypto.keys.PrivateKey,
        Plain(_parse_private_key, {"format": "private-key", "writeOnly": True}),
        WithData(_is_of_the_leaf),
    ]
    """Private key of the leaf in PEM. It is in no response."""


class TLSCertificateSANs(Shape):
    """Subject alternative names, from the leaf."""

    dns_names: list[str]
    """Additional domains, wildcards included."""

    ips: list[str]
    """IP addresses."""


class TLSCertificate(DescribedShape, TracedShape):
    """A TLS certificate for edges. Fields are read from the leaf. The private key is never shown."""

    certificate_pem: str
    """Chain of PEM-encoded certificates, leaf first."""

    subject_common_name: str
    """Common name of the leaf's subject."""

    subject_alternative_names: TLSCertificateSANs
    """Subject alternative names of the leaf."""

    issued_at: Timestamp | None
    """When the certificate was issued automatically, RFC 3339; null if it was uploaded."""

    not_before: Timestamp
    """Start of validity."""

    not_after: Timestamp
    """End of validity."""

    key_usages: list[str]
    """Actions the private key may be used for, in the names of RFC 5280."""

    extended_key_usages: list[str]
    """Extended key usages, in the names of RFC 5280; others as dotted numbers."""

    private_key_type: crypto.keys.KeyType
    """Type of the private key."""

    issuer_common_name: str
    """Common name of the leaf's issuer."""

    serial_number: str
    """Serial number of the leaf, in lower-case hexadecimal with an even number of digits."""

    subject_organization: str
    """Organization of the leaf's subject; empty if absent."""

    subject_organizational_unit: str
    """Organizational unit of the leaf's subject; empty if absent."""

    subject_locality: str
    """Locality of the leaf's subject; empty if absent."""

    subject_province: str
    """Province of the leaf's subject; empty if absent."""

    subject_country: str
    """Country of the leaf's subject; empty if absent."""


def make(caller: Caller, id: str, request: TLSCreate) -> New:
    stored = TlsCertificate.of_chain(request.certificate_pem, request.description, request.metadata)
    return New(stored, sealed={"private_key": crypto.keys.to_der(request.private_key_pem)})


def _remove(change: Change, scope: str, id: str) -> bool:
    """Delete a TLS certificate. Return False if it does not exist.

    Raises Conflict if a reserved domain has a policy for automatic certificates and uses this certificate.
    """

    def attempt() -> bool:
        item = table.find(scope, id)
        if item:
            change.remove(item).add(*_require_unused(item)).commit()
        return item is not None

    return writes.retry(attempt)


def _require_unused(certificate: Item) -> Sequence[Write]:
    """Return the condition check for the deletion of a certificate.

    If the certificate was issued for a reserved domain, the check fails if the domain changes before the deletion.
    Otherwise, return no check. Raises Conflict if the domain has a policy for automatic certificates and uses the
    certificate.
    """
    reservation = issued_certificates.find_reservation(certificate)
    if reservation is None:
        return ()
    stored = ReservedDomain.of(reservation.body)
    if stored.policy and stored.certificate_id == certificate.id:
        raise Conflict(_IN_USE.format(stored.domain))
    return [Write.check(*reservation.key, items.require_unchanged(reservation))]


RESOURCE = EditableResource(
    kind=kinds.TLS_CERTIFICATES,
    stored=TlsCertificate,
    create=TLSCreate,
    response=TLSCertificate,
    make=make,
    remove=_remove,
    errors={"DELETE": (Conflict,)},
)
