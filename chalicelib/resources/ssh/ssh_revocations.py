"""Revocations of certificates and public keys by an SSH authority.

An authority does not sign keys that it has revoked.
"""

from dataclasses import replace
from typing import Annotated

from chalicelib import clock, crypto, ids
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Conflict, Forbidden, InvalidRequest, NotFound, UnknownReference
from chalicelib.http.paging import Page
from chalicelib.http.resource import Resource
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.ssh import revocations
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.model.ssh.revocations import AlreadyRevoked, Issuer, Revocation
from chalicelib.resources.ssh import ssh_signing
from chalicelib.schema.fields import MAX_DESCRIPTION, Description, Timestamp, Uri
from chalicelib.schema.rules import After, if_empty, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item

_MAX_SERIAL = 2**64 - 1


def _check_serial(text: str) -> str:
    if text and not (text.isascii() and text.isdecimal() and text[0] != "0" and int(text[:21]) <= _MAX_SERIAL):
        raise ValueError(f"must be a decimal number from 1 to {_MAX_SERIAL}, as a string")
    return text


def _check_public_key(text: str) -> str:
    if text:
        crypto.public_keys.fingerprint(text)
    return text


def _build_id_rule(kind: Kind) -> After:
    def check(text: str) -> str:
        if text and not kind.has(text):
            raise ValueError(f"must be an id of the form {kind.prefix}_…")
        return text

    return After(check, {"pattern": ids.pattern(kind.prefix)})


_SUBJECT = ("ssh_user_certificate_id", "ssh_host_certificate_id", "serial", "public_key")


class RevocationCreate(Shape):
    """Revokes exactly one certificate or public key."""

    ssh_user_certificate_id: Annotated[str, _build_id_rule(kinds.SSH_USER_CERTIFICATES), if_empty("")] = ""
    """A user certificate that this authority signed and that has not expired."""

    ssh_host_certificate_id: Annotated[str, _build_id_rule(kinds.SSH_HOST_CERTIFICATES), if_empty("")] = ""
    """A host certificate that this authority signed and that has not expired."""

    serial: Annotated[str, After(_check_serial, {"pattern": "^[1-9][0-9]{0,19}$"}), if_empty("")] = ""
    """The serial of a certificate that this API does not store: a decimal number in a string (JavaScript lacks 64-bit
    numbers)."""

    public_key: Annotated[
        str, max_bytes(16 * 1024), After(_check_public_key, {"format": "ssh-public-key"}), if_empty("")
    ] = ""
    """A public key: all its certificates are revoked. OpenSSH authorized_keys format, PEM or RFC 4716."""

    reason: Description = ""
    f"""The reason, for people; at most {MAX_DESCRIPTION} bytes."""


class SSHRevocation(Shape):
    """A revocation by an SSH authority. It is removed from the list when it ends. Fields without a value are absent."""

    model_config = {"json_schema_serialization_defaults_required": False}

    id: str
    """Unique identifier; the order of ids is the order of creation."""

    uri: Uri
    """Absolute URL of the resource."""

    created_at: Timestamp
    """When the certificate or key was revoked, RFC 3339."""

    reason: str = ""
    """The reason."""

    ssh_user_certificate_id: str = ""
    """The user certificate. It may be deleted."""

    ssh_host_certificate_id: str = ""
    """The host certificate. It may be deleted."""

    serial: str = ""
    """The serial of the certificate, as a decimal number."""

    public_key: str = ""
    """The public key: all its certificates are revoked."""

    key_fingerprint: str = ""
    """The SHA256 fingerprint of the public key, as `ssh-keygen -l` prints it."""

    valid_until: Timestamp = ""
    """When the certificate ends, and its revocation too. A revocation without a known end stays until it is deleted."""


class Revocations(Resource):
    """Revocations of an SSH authority. They can be created and deleted but not changed."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            *super().endpoints(),
            self.endpoint("POST", self.kind.path, 201, self.post, body=RevocationCreate, response=SSHRevocation),
            self.endpoint("DELETE", self.kind.item_path, 204, self.delete),
        )

    def list_items(self, call: Call, page: Page) -> tuple[list[Item], bool]:
        _find_issuer(call)
        return super().list_items(call, page)

    def post(self, call: Call) -> Item:
        subjects = {name: value for name, value in call.body.values().items() if value and name in _SUBJECT}
        if len(subjects) != 1:
            raise InvalidRequest.of(dict.fromkeys(subjects or _SUBJECT, _ALONE))
        ((field, value),) = subjects.items()
        if field not in revocations.FIELDS.values() and not call.caller.acts_for_all:
            raise Forbidden(
                _OTHERS,
                {field: "must be absent unless you are an admin: name a certificate that you requested"},
            )
        issuer = _find_issuer(call)
        revocation = replace(_build_revocation(call.caller, issuer, field, value), reason=call.body.reason)
        try:
            return revocations.revoke(call.change, issuer, revocation)
        except AlreadyRevoked:
            raise Conflict(f"'{field}' is revoked already.", {field: "must not be revoked already"}) from None

    def delete(self, call: Call) -> None:
        if not (call.caller.acts_for_all or _names_own_certificate(call.caller, self.get(call))):
            raise Forbidden(_OTHERS)
        if not revocations.remove(call.change, self.scope(call), call.id):
            raise self.missing()


_OTHERS = "Only an admin may revoke keys, serials and certificates of others, and delete such revocations."
_ALONE = f"must be set alone: exactly one of {', '.join(_SUBJECT)} is accepted"


def _find_issuer(call: Call) -> Issuer:
    issuer = revocations.find_issuer(call.caller.account, call.path["id"])
    if issuer is None:
        raise NotFound(f"This account has no resource with that id under {kinds.SSH_CERTIFICATE_AUTHORITIES.path}.")
    return issuer


def _names_own_certificate(caller: Caller, revocation: Item) -> bool:
    """Return whether the certificate of a revocation exists, and the caller may revoke it."""
    for kind, field in revocations.FIELDS.items():
        if id := revocation.body.get(field):
            certificate = table.find(items.scope(revocation.account, kind.path), id)
            return certificate is not None and ssh_signing.is_own(caller, certificate)
    return False


def _build_revocation(caller: Caller, issuer: Issuer, field: str, value: str) -> Revocation:
    """Return the revocation that a request asks for. `field` is the request's field with the revoked subject.

    The subject is a serial, a public key or a certificate's id. Raises UnknownReference, Forbidden, InvalidRequest,
    aws.Unavailable.
    """
    match field:
        case "serial":
            return Revocation(serial=value)
        case "public_key":
            return revocations.revoke_key(value)
    item = table.read(items.scope(issuer.account, kinds.identify(value).path), value)
    certificate = IssuedCertificate.of(item.body) if item else None
    if item is None or certificate is None or certificate.ssh_certificate_authority_id != issuer.id:
        rule = "must be the id of a certificate that this authority signed"
        raise UnknownReference(f"'{field}' names a resource that does not exist.", {field: rule})
    if not ssh_signing.is_own(caller, item):
        raise Forbidden(_OTHERS, {field: "must be the id of a certificate that you requested"})
    if certificate.end <= clock.seconds():
        raise InvalidRequest.of({field: "must be the id of a certificate that has not expired"})
    return revocations.describe_certificate(item)


RESOURCE = Revocations(
    kind=kinds.SSH_REVOCATIONS,
    stored=Revocation,
    response=SSHRevocation,
    errors={"POST": (UnknownReference, NotFound, Conflict), "GET": (NotFound,)},
)
