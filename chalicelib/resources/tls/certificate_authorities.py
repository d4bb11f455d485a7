"""Certificate authorities for mutual TLS. Responses show fields that are read from the PEM of the request."""

from __future__ import annotations

from typing import Annotated, Any

from chalicelib import clock, crypto
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.base import kinds
from chalicelib.model.tls.tls_certificates import ClientAuthority
from chalicelib.schema.fields import DescribedShape, Shown, Timestamp
from chalicelib.schema.rules import Plain

_MAX_CA = 16  # the most KiB of PEM text


def _parse_authority(value: Any) -> crypto.authorities.Authority:
    if not isinstance(value, str):
        raise ValueError("must be a string in PEM format")
    return crypto.authorities.read(value, _MAX_CA * 1024)


class AuthorityCreate(DescribedShape):
    ca_pem: Annotated[
        crypto.authorities.Authority, Plain(_parse_authority, {"minLength": 1, "format": "ca-certificate"})
    ]
    f"""PEM of exactly one CA certificate, at most {_MAX_CA} KiB. It may be expired. Text around it is dropped."""


class CertificateAuthority(AuthorityCreate, Shown):
    """A certificate authority for mutual TLS: edges accept clients with its certificates."""

    subject_common_name: str
    """Common name of the certificate's subject; empty if absent."""

    not_before: Timestamp
    """Start of validity."""

    not_after: Timestamp
    """End of validity."""

    key_usages: list[str]
    """Key usages, in the names of RFC 5280."""

    extended_key_usages: list[str]
    """Extended key usages, in the names of RFC 5280; others as dotted numbers."""


def make(caller: Caller, id: str, request: AuthorityCreate) -> New:
    facts = request.ca_pem.facts
    return New(
        ClientAuthority(
            description=request.description,
            metadata=request.metadata,
            ca_pem=request.ca_pem.pem,
            subject_common_name=facts.subject.common_name,
            not_before=clock.rfc3339(facts.not_before),
            not_after=clock.rfc3339(facts.not_after),
            key_usages=facts.key_usages,
            extended_key_usages=facts.extended_key_usages,
        )
    )


RESOURCE = EditableResource(
    kind=kinds.CERTIFICATE_AUTHORITIES,
    stored=ClientAuthority,
    create=AuthorityCreate,
    response=CertificateAuthority,
    make=make,
    errors={"DELETE": (Conflict,)},
)
