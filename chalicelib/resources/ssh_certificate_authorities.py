"""SSH certificate authorities (SPEC 2.5). The private key is made here, sealed at once, and opened only to sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from chalicelib import crypto
from chalicelib.api.caller import Caller
from chalicelib.api.fields import Described
from chalicelib.api.resource import EditableResource, New, seal_context
from chalicelib.api.rules import Before, Beside, if_zero
from chalicelib.storage import vault
from chalicelib.storage.items import Item


def _integer(value: Any) -> Any:
    if isinstance(value, float):  # 2048.0 equals the literal
        raise ValueError("must be an integer")
    return value


def _only_with(type: crypto.keys.KeyType) -> Beside:
    def check(value: Any, above: Mapping[str, Any]) -> Any:
        if value is not None and above.get("private_key_type", type) != type:
            raise ValueError(f"must be absent unless private_key_type is {type}")
        return value

    return Beside(check)


class Create(Described):
    private_key_type: Annotated[crypto.keys.KeyType, if_zero("ed25519")] = "ed25519"
    elliptic_curve: Annotated[crypto.keys.Curve | None, if_zero(None), _only_with("ecdsa")] = None
    key_size: Annotated[Literal[2048, 4096] | None, if_zero(None), Before(_integer), _only_with("rsa")] = None


def make(caller: Caller, id: str, asked: Create) -> New:
    key = _generate(asked)
    return New(
        body={
            "description": asked.description,
            "metadata": asked.metadata,
            "public_key": crypto.keys.authorized_key(key.public_key()),
            "key_type": asked.private_key_type,
        },
        sealed={"private_key": crypto.keys.to_der(key)},
    )


def signing_key(caller: Caller, authority: Item) -> crypto.keys.PrivateKey:
    """The authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    return vault.unseal(
        authority.sealed["private_key"], seal_context(caller.account, authority.id), crypto.keys.from_der
    )


def _generate(asked: Create) -> crypto.keys.PrivateKey:
    match asked.private_key_type:
        case "rsa":
            return crypto.keys.generate_rsa(asked.key_size or 4096)
        case "ecdsa":
            return crypto.keys.generate_ecdsa(asked.elliptic_curve or "nistp256")
        case "ed25519":
            return crypto.keys.generate_ed25519()


SSH_CERTIFICATE_AUTHORITIES = EditableResource(
    prefix="sshca",
    path="/ssh_certificate_authorities",
    items="ssh_certificate_authorities",
    create=Create,
    make=make,
)
