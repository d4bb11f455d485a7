"""SSH user certificates (SPEC 2.4). Signed at creation and never again: a change alters only what describes them."""

import ipaddress
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, field_validator

from chalicelib import clock, ids
from chalicelib.api.caller import Caller
from chalicelib.api.errors import InvalidRequest
from chalicelib.api.fields import Described, Name, Shape, Time, id_of, if_null, max_bytes
from chalicelib.api.resource import EditableResource, New
from chalicelib.crypto import keys, ssh_certificates
from chalicelib.crypto.keys import AuthorizedKey
from chalicelib.crypto.ssh_certificates import UserCertificate
from chalicelib.resources import ssh_certificate_authorities as authorities
from chalicelib.resources.ssh_certificate_authorities import SSH_CERTIFICATE_AUTHORITIES

LIFETIME = timedelta(hours=24)
DEFAULT_EXTENSIONS = {"permit-pty": "", "permit-user-rc": ""}
_MAX_KEY_BYTES = 16 * 1024
_NETWORK = re.compile(r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?")  # sshd refuses certificates with netmasks and scopes
_WITHOUT_VALUE = {  # sshd refuses certificates with one
    "no-touch-required",
    "permit-X11-forwarding",
    "permit-agent-forwarding",
    "permit-port-forwarding",
    "permit-pty",
    "permit-user-rc",
}


def _public_key(value: Any) -> AuthorizedKey:
    if not isinstance(value, str):
        raise ValueError("must be a string in OpenSSH authorized_keys form")
    if len(value.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"must be at most {_MAX_KEY_BYTES} bytes of UTF-8")
    return keys.parse_authorized_key(value)


def _networks(text: str) -> str:
    for network in text.split(","):
        try:
            if not _NETWORK.fullmatch(network):
                raise ValueError
            ipaddress.ip_network(network)
        except ValueError:
            raise ValueError("must be a comma-separated list of addresses or CIDR networks") from None
    return text


def _command(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must be a command")
    return text


def _extensions(values: dict[str, str]) -> dict[str, str]:
    if faulty := sorted(name for name in _WITHOUT_VALUE & values.keys() if values[name]):
        raise ValueError(f"must hold {' and '.join(faulty)} with an empty string, as OpenSSH knows no value there")
    return values


class CriticalOptions(Shape):
    force_command: Annotated[str, AfterValidator(_command), max_bytes(16 * 1024)] = Field("", alias="force-command")
    source_address: Annotated[str, AfterValidator(_networks), max_bytes(4096)] = Field("", alias="source-address")


class Create(Described):
    ssh_certificate_authority_id: Annotated[str, id_of("sshca")]
    public_key: Annotated[AuthorizedKey, PlainValidator(_public_key)]
    principals: Annotated[list[Name], Field(max_length=256), if_null([])] = []
    critical_options: Annotated[CriticalOptions, if_null(CriticalOptions())] = CriticalOptions()
    extensions: Annotated[
        dict[Name, Annotated[str, max_bytes(1024)]],
        Field(max_length=32),
        AfterValidator(_extensions),
        if_null(DEFAULT_EXTENSIONS),
    ] = DEFAULT_EXTENSIONS
    valid_after: Time = None
    valid_until: Time = Field(None, validate_default=True)

    @field_validator("valid_after")
    @classmethod
    def _not_before_1970(cls, value: datetime | None) -> datetime | None:
        if value and value < datetime.fromtimestamp(0, UTC):
            raise ValueError("must not be before 1970, which certificates cannot express")
        return value

    @field_validator("valid_until")
    @classmethod
    def _after_the_start(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        start = info.data.get("valid_after") or clock.now()
        if (value or clock.now() + LIFETIME) <= start:
            raise ValueError("must be after valid_after; unspecified it is 24 hours after creation")
        return value


def make(caller: Caller, id: str, asked: Create) -> New:
    authority = SSH_CERTIFICATE_AUTHORITIES.referred(
        caller, asked.ssh_certificate_authority_id, field="ssh_certificate_authority_id"
    )
    certificate = UserCertificate(
        key_id=id,
        serial=secrets.randbelow(2**64 - 1) + 1,
        public_key=asked.public_key.key,
        principals=asked.principals,
        valid_after=asked.valid_after or ids.created_at(id),
        valid_until=asked.valid_until or ids.created_at(id) + LIFETIME,
        critical_options=asked.critical_options.model_dump(by_alias=True, exclude_unset=True),
        extensions=asked.extensions,
    )
    if certificate.valid_until <= certificate.valid_after:  # the second of creation is later than that of the check
        raise InvalidRequest.of({"valid_until": "must be after valid_after"})
    line = ssh_certificates.sign(certificate, authorities.signing_key(caller, authority))
    return New(_body(asked, certificate, line))


def _body(asked: Create, certificate: UserCertificate, line: str) -> dict[str, Any]:
    return {
        "description": asked.description,
        "metadata": asked.metadata,
        "public_key": asked.public_key.line,
        "key_type": keys.key_type(certificate.public_key),
        "ssh_certificate_authority_id": asked.ssh_certificate_authority_id,
        "principals": list(certificate.principals),
        "critical_options": dict(certificate.critical_options),
        "extensions": dict(certificate.extensions),
        "valid_after": clock.rfc3339(certificate.valid_after),
        "valid_until": clock.rfc3339(certificate.valid_until),
        "certificate": line,
    }


SSH_USER_CERTIFICATES = EditableResource(
    prefix="sucrt",
    path="/ssh_user_certificates",
    items="ssh_user_certificates",
    create=Create,
    make=make,
)
