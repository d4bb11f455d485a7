"""SSH certificate authorities (SPEC 2.5).

The private key is generated here, encrypted at once, and decrypted only to sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import Forbidden
from chalicelib.http.resource import EditableResource, New, show_fields
from chalicelib.model.base import kinds, records
from chalicelib.model.ssh import authorities
from chalicelib.model.ssh.authorities import SshAuthority
from chalicelib.schema.fields import MAX_DESCRIPTION, MAX_METADATA, DescribedShape, Description, Metadata, Shown
from chalicelib.schema.rules import Before, WithData, if_zero
from chalicelib.storage.records.items import Item


def _require_integer(value: Any) -> Any:
    if isinstance(value, float):  # otherwise pydantic would accept 2048.0 as 2048
        raise ValueError("must be an integer")
    return value


def _require_type(kind: crypto.keys.KeyType) -> WithData:
    def check(value: Any, above: Mapping[str, Any]) -> Any:
        if value is not None and above.get("private_key_type", kind) != kind:
            raise ValueError(f"must be absent unless private_key_type is {kind}")
        return value

    return WithData(check)


class SSHAuthorityCreate(DescribedShape):
    private_key_type: Annotated[crypto.keys.KeyType, if_zero("ed25519")] = "ed25519"
    """Type of the private key."""

    elliptic_curve: Annotated[crypto.keys.Curve | None, if_zero(None), _require_type("ecdsa")] = None
    """Curve of an ecdsa key. Default: nistp256."""

    key_size: Annotated[Literal[2048, 4096] | None, if_zero(None), Before(_require_integer), _require_type("rsa")] = (
        None
    )
    """Bits of an rsa key. Default: 4096."""


class SSHCertificateAuthority(Shown):
    """Signs SSH certificates of users and hosts. The service generates its private key and never shows it."""

    model_config = {"json_schema_serialization_defaults_required": False}

    description: Description
    f"""Description of the resource, optional, at most {MAX_DESCRIPTION} bytes."""

    metadata: Metadata
    f"""Arbitrary user-defined data, optional, at most {MAX_METADATA} bytes. Typically a serialized JSON text."""

    public_key: str
    """Public key of the authority, which servers should trust: one line in OpenSSH authorized_keys format."""

    key_type: crypto.keys.KeyType
    """Type of the authority's private key."""

    elliptic_curve: crypto.keys.Curve = "nistp256"
    """The curve of an ecdsa key; absent for other types."""

    key_size: Literal[2048, 4096] = 4096
    """The bits of an rsa key; absent for other types."""


def make(caller: Caller, id: str, request: SSHAuthorityCreate) -> New:
    key = _generate(request)
    stored = SshAuthority(
        description=request.description,
        metadata=request.metadata,
        public_key=crypto.keys.authorized_key(key.public_key()),
        key_type=request.private_key_type,
    )
    revocations = authorities.begin_list(caller.account, id, stored.public_key)
    return New(stored, sealed={"private_key": crypto.keys.to_der(key)}, also=[revocations])


def _generate(request: SSHAuthorityCreate) -> crypto.keys.PrivateKey:
    match request.private_key_type:
        case "rsa":
            return crypto.keys.generate_rsa(request.key_size or 4096)
        case "ecdsa":
            return crypto.keys.generate_ecdsa(request.elliptic_curve or "nistp256")
        case "ed25519":
            return crypto.keys.generate_ed25519()


def _build_responses(items: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    return [
        {**show_fields(SshAuthority, item, call), **records.decode(SshAuthority, item).parameters()} for item in items
    ]


def permit(caller: Caller) -> None:
    """Raise Forbidden unless the caller is an admin. Only admins may change and delete SSH authorities."""
    if not caller.acts_for_all:
        raise Forbidden("Only an admin may change or delete an SSH certificate authority.")


class Authorities(EditableResource):
    """SSH authorities. Their responses describe their public keys."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        methods = ("PATCH", "DELETE")
        return tuple(
            endpoint._replace(permits=permit) if endpoint.method in methods else endpoint
            for endpoint in super().endpoints()
        )

    def check(self, item: Item) -> None:
        super().check(item)
        records.decode(SshAuthority, item).parameters()


RESOURCE = Authorities(
    kind=kinds.SSH_CERTIFICATE_AUTHORITIES,
    stored=SshAuthority,
    create=SSHAuthorityCreate,
    response=SSHCertificateAuthority,
    make=make,
    to_responses=_build_responses,
    remove=authorities.remove,
)
