"""Signing of SSH certificates for users and hosts. Rules decide who may sign, read and delete certificates."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chalicelib import clock, crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, Forbidden, InvalidRequest, UnknownReference
from chalicelib.http.paging import Page
from chalicelib.http.resource import New
from chalicelib.model.accounts import accounts, scopes
from chalicelib.model.accounts.accounts import User
from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.switches import WITHOUT_KEY
from chalicelib.model.ssh import authorities, policies
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.model.ssh.policies import PolicyBounds
from chalicelib.resources.owned import OwnedResource, owner_of
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item


class Certificates(OwnedResource):
    """SSH certificates. A scope of an API key can permit only one authority's certificates, by the authority's id."""

    def list_items(self, call: Call, page: Page) -> tuple[list[Item], bool]:
        return table.read_page(self.scope(call), before=page.before_id, count=page.limit)

    def selection(self, call: Call) -> Callable[[Item], bool] | None:
        authorities, by_owner = call.caller.readable_ids(self.kind), super().selection(call)
        if authorities is None:
            return by_owner
        return lambda item: _read_authority_id(item) in authorities and (by_owner is None or by_owner(item))


def check_access(call: Call, item: Item) -> None:
    """Raise Forbidden if the caller must not read or change a certificate.

    An API key with scopes needs the scope for the authority. Callers that are not admins can delete only certificates
    that they requested or made.
    """
    if call.caller.limits.scopes:
        call.caller.require(
            scopes.build_authority_scope(call.method, kinds.identify(item.id), _read_authority_id(item))
        )
    if call.method == "DELETE" and not is_own(call.caller, item):
        raise Forbidden("Only an admin may delete certificates that others requested.")


def is_own(caller: Caller, certificate: Item) -> bool:
    """Return whether the caller may revoke a certificate.

    The caller may revoke a certificate that it requested, or that its API key created. A caller that may change the
    resources of other owners may revoke any certificate.
    """
    maker = certificate.body.get("created_by")
    return caller.acts_for_all or owner_of(certificate) == caller.id or bool(maker and maker == caller.key)


def _read_authority_id(item: Item) -> str:
    return str(item.body.get("ssh_certificate_authority_id", ""))


@dataclass(frozen=True)
class Signer:
    """The authority that will sign a certificate for a public key.

    `fingerprint` is the fingerprint of this key. `has_revoked_key` is whether the authority has revoked the key.
    """

    authority: Item
    fingerprint: str
    has_revoked_key: bool


def find_signer(caller: Caller, kind: Kind, request: Any) -> Signer:
    """Return the signer of a requested certificate: the authority that the request names.

    Raises UnknownReference, aws.Unavailable; Forbidden if the caller's key lacks the scope; Conflict if the authority
    was imported without its private key.
    """
    if caller.limits.scopes:
        caller.require(scopes.build_authority_scope("POST", kind, request.ssh_certificate_authority_id))
    digest = crypto.keys.digest(request.public_key.key)
    fingerprint = crypto.keys.fingerprint(digest)
    authority, has_revoked_key = authorities.read_signer(caller.account, request.ssh_certificate_authority_id, digest)
    if authority is None:
        rule = f"must be an id listed at {kinds.SSH_CERTIFICATE_AUTHORITIES.path}"
        raise UnknownReference(
            "'ssh_certificate_authority_id' names no SSH authority of this account.",
            {"ssh_certificate_authority_id": rule},
        )
    if authority.unseen.get(WITHOUT_KEY):
        raise Conflict("This authority was imported without its private key: create another one and sign with it.")
    return Signer(authority, fingerprint, has_revoked_key)


def build_common_fields(
    id: str, created_at: datetime, request: Any, bounds: PolicyBounds, default: timedelta
) -> dict[str, Any]:
    """Return the fields that user and host certificates have in common.

    The key id is the id of the resource, and the serial is random. `valid_until` is by default the time of creation
    plus the default lifetime. `bounds` (the policy of the authority) can set the default lifetime. Otherwise it is
    `default`.
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
    """Raise InvalidRequest if a certificate exceeds the bounds of its authority's policy.

    Raises Forbidden if the policy names other signers. Admins may always sign. Raises aws.Unavailable.
    """
    if bounds.signers is not None and not caller.admin and caller.id not in bounds.signers:
        raise Forbidden(
            "The policy of the authority does not name you as a signer: an admin can add your id to 'signers'."
        )
    name = _name_of(caller) if bounds.names_the_caller else None
    if errors := policies.find_violations(bounds, certificate, name, created_at):
        raise InvalidRequest.of(errors)


def _name_of(caller: Caller) -> str | None:
    """Return the current name of the caller, a user or bot.

    The token's record has a copy of the name, which can be old. So the user or bot is read. A caller from a token
    exchange already has the current name.
    """
    if kinds.FEDERATED_CREDENTIALS.has(caller.key):
        return caller.name
    owner = accounts.read(caller.account, caller.id)
    return records.decode(User, owner).name if owner else None


def sign(
    stored: type[IssuedCertificate],
    certificate: "crypto.ssh_certificates.Certificate",
    signer: Signer,
    request: Any,
    **options: Any,
) -> New:
    """Sign a certificate. Return it as a new resource of the type `stored`.

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
    """Check a certificate before it is signed. Its validity must end after its start.

    Raises InvalidRequest, and Conflict if the authority has revoked the public key.
    """
    # The validation of the body has already compared these times. But the default of `valid_after` is the current time,
    # which is now later than during the validation.
    if certificate.valid_until <= certificate.valid_after:
        raise InvalidRequest.of({"valid_until": "must be after valid_after"})
    if signer.has_revoked_key:
        rule = "must be a key that the authority has not revoked"
        raise Conflict("The authority has revoked this public key: use a new key.", {"public_key": rule})
