"""Signing of SSH user and host certificates: the authority, its policy, the signature."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chalicelib import clock, crypto
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, InvalidRequest, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model.accounts import accounts
from chalicelib.model.accounts.accounts import User
from chalicelib.model.base import kinds, records
from chalicelib.model.ssh import authorities, policies
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.model.ssh.policies import PolicyBounds
from chalicelib.storage.records.items import Item


@dataclass(frozen=True)
class Signer:
    """The authority that will sign, the public key's fingerprint, and whether it is revoked."""

    authority: Item
    fingerprint: str
    has_revoked_key: bool


def signer(caller: Caller, request: Any) -> Signer:
    """Return the authority of a request, and whether it has revoked the key.

    Raises UnknownReference, aws.Unavailable.
    """
    digest = crypto.keys.digest(request.public_key.key)
    fingerprint = crypto.keys.fingerprint(digest)
    found, has_revoked_key = authorities.read_signer(caller.account, request.ssh_certificate_authority_id, digest)
    if found is None:
        rule = f"must be an id listed at {kinds.SSH_CERTIFICATE_AUTHORITIES.path}"
        field = "ssh_certificate_authority_id"
        raise UnknownReference(f"'{field}' names a resource that does not exist.", {field: rule})
    return Signer(found, fingerprint, has_revoked_key)


def common(id: str, created_at: datetime, request: Any, bounds: PolicyBounds, default: timedelta) -> dict[str, Any]:
    """Return the fields that user and host certificates share.

    The key id is the id of the resource, the serial is random. Without an end in the request, the certificate is valid
    from its creation for the policy's lifetime, or else the default.
    """
    return {
        "key_id": id,
        "serial": secrets.randbelow(2**64 - 1) + 1,
        "public_key": request.public_key.key,
        "principals": request.principals,
        "valid_after": request.valid_after or created_at - timedelta(seconds=bounds.backdate),
        "valid_until": request.valid_until or created_at + policies.default_lifetime(bounds, default),
    }


def check(
    certificate: "crypto.ssh_certificates.Certificate", bounds: PolicyBounds, caller: Caller, created_at: datetime
) -> None:
    """Check a certificate against its authority's policy. Raises InvalidRequest, aws.Unavailable."""
    owner = accounts.read(caller.account, caller.id) if bounds.names_the_caller else None
    name = records.decode(User, owner).name if owner else None
    if wrong := policies.find_violations(bounds, certificate, name, created_at):
        raise InvalidRequest.of(wrong)


def signed(
    stored: type[IssuedCertificate],
    certificate: "crypto.ssh_certificates.Certificate",
    signer: Signer,
    request: Any,
    **options: Any,
) -> New:
    """Sign a certificate and return it in its stored type.

    Raises InvalidRequest, Conflict, aws.Unavailable.
    """
    _check_signable(certificate, signer)
    authority = signer.authority
    issued = stored(
        description=request.description,
        metadata=request.metadata,
        public_key=request.public_key.line,
        key_type=crypto.keys.key_type(certificate.public_key),
        ssh_certificate_authority_id=authority.id,
        principals=list(certificate.principals),
        valid_after=clock.rfc3339(certificate.valid_after),
        valid_until=clock.rfc3339(certificate.valid_until),
        certificate=crypto.ssh_certificates.sign(certificate, authorities.open_signing_key(authority)),
        **options,
    )
    return New(issued, details=authorities.audited_certificate(issued, certificate.serial, signer.fingerprint))


def _check_signable(certificate: "crypto.ssh_certificates.Certificate", signer: Signer) -> None:
    """Raise InvalidRequest or Conflict for a certificate that must not be signed."""
    if certificate.valid_until <= certificate.valid_after:  # the creation may be in a later second than the first check
        raise InvalidRequest.of({"valid_until": "must be after valid_after"})
    if signer.has_revoked_key:
        rule = "must be a key that the authority has not revoked"
        raise Conflict("The authority has revoked this public key.", {"public_key": rule})
