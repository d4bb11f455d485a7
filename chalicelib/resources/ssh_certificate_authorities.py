"""SSH certificate authorities (SPEC 2.5). The private key is made here, sealed at once, and opened only to sign."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, field_validator

from chalicelib.api.caller import Caller
from chalicelib.api.fields import Described, if_zero
from chalicelib.api.resource import EditableResource, New, seal_context
from chalicelib.crypto import keys
from chalicelib.crypto.keys import Curve, KeyType, PrivateKey
from chalicelib.storage import vault
from chalicelib.storage.items import Item

_BELONGS_TO = {"elliptic_curve": "ecdsa", "key_size": "rsa"}


def _integer(value: Any) -> Any:
    if isinstance(value, float):  # 2048.0 equals the literal
        raise ValueError("must be an integer")
    return value


class Create(Described):
    private_key_type: Annotated[KeyType, if_zero("ed25519")] = "ed25519"
    elliptic_curve: Annotated[Curve | None, if_zero(None)] = None
    key_size: Annotated[Literal[2048, 4096] | None, if_zero(None), BeforeValidator(_integer)] = None

    @field_validator("elliptic_curve", "key_size")
    @classmethod
    def _goes_with_the_type(cls, value: Any, info: ValidationInfo) -> Any:
        only = _BELONGS_TO[str(info.field_name)]
        if value is not None and info.data.get("private_key_type", only) != only:
            raise ValueError(f"must be absent unless private_key_type is {only}")
        return value


def make(caller: Caller, id: str, asked: Create) -> New:
    key = _generate(asked)
    return New(
        body={
            "description": asked.description,
            "metadata": asked.metadata,
            "public_key": keys.authorized_key(key.public_key()),
            "key_type": asked.private_key_type,
        },
        sealed={"private_key": keys.to_der(key)},
    )


def signing_key(caller: Caller, authority: Item) -> PrivateKey:
    """The authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    return vault.unseal(authority.sealed["private_key"], seal_context(caller.account, authority.id), keys.from_der)


def _generate(asked: Create) -> PrivateKey:
    match asked.private_key_type:
        case "rsa":
            return keys.generate_rsa(asked.key_size or 4096)
        case "ecdsa":
            return keys.generate_ecdsa(asked.elliptic_curve or "nistp256")
        case "ed25519":
            return keys.generate_ed25519()


SSH_CERTIFICATE_AUTHORITIES = EditableResource(
    prefix="sshca",
    path="/ssh_certificate_authorities",
    items="ssh_certificate_authorities",
    create=Create,
    make=make,
)
