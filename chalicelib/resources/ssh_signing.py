"""Signing that SSH certificates of users and hosts share: the authority, its policy, the signature."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from chalicelib import clock, crypto, ids
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, InvalidRequest, UnknownReference
from chalicelib.http.resource import New
from chalicelib.model import accounts, kinds, records
from chalicelib.model.accounts import User
from chalicelib.model.ssh import authorities, policies
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.model.ssh.policies import Bounds
from chalicelib.storage.items import Item


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
    found, has_revoked_key = authorities.signer(caller.account, request.ssh_certificate_authority_id, digest)
    if found is None:
        rule = f"must be an id listed at {kinds.SSH_CERTIFICATE_AUTHORITIES.path}"
        raise UnknownReference(
            "'ssh_certificate_authority_id' names a resource that does not exist.",
            {"ssh_certificate_authority_id": rule},
        )
    return Signer(found, crypto.keys.fingerprint(digest), has_revoked_key)


def common(id: str, request: Any, bounds: Bounds, default: timedelta) -> dict[str, Any]:
    """Return the fields that certificates of users and hosts share.

    The key id is the id of the resource, the serial is random. Without an end in the request, the certificate is valid
    from its creation for the policy's lifetime, or else the default.
    """
    created_at = ids.created_at(id)
    return {
        "key_id": id,
        "serial": secrets.randbelow(2**64 - 1) + 1,
        "public_key": request.public_key.key,
        "principals": request.principals,
        "valid_after": request.valid_after or created_at - timedelta(seconds=bounds.backdate),
        "valid_until": request.valid_until or created_at + policies.lifetime(bounds, default),
    }


def check(certificate: "crypto.ssh_certificates.Certificate", bounds: Bounds, caller: Caller) -> None:
    """Raise InvalidRequest if a certificate breaks its authority's policy; aws.Unavailable."""
    owner = accounts.read(caller.account, caller.id) if bounds.names_the_caller else None
    name = records.decode(User, owner).name if owner else None
    if wrong := policies.violations(bounds, certificate, name, ids.created_at(certificate.key_id)):
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
        certificate=crypto.ssh_certificates.sign(certificate, authorities.signing_key(authority)),
        **options,
    )
    return New(issued, details=authorities.told_of(issued, certificate.serial, signer.fingerprint))


def _check_signable(certificate: "crypto.ssh_certificates.Certificate", signer: Signer) -> None:
    """Raise InvalidRequest or Conflict for a certificate that must not be signed."""
    if certificate.valid_until <= certificate.valid_after:  # the creation may be in a later second than the first check
        raise InvalidRequest.of({"valid_until": "must be after valid_after"})
    if signer.has_revoked_key:
        rule = "must be a key that the authority has not revoked"
        raise Conflict("The authority has revoked this public key.", {"public_key": rule})
