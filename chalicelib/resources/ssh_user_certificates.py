"""SSH user certificates (SPEC 2.4). Signed at creation and never again: a change alters only what describes them."""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from chalicelib import clock, crypto, ids
from chalicelib.api import fields
from chalicelib.api.caller import Caller
from chalicelib.api.errors import InvalidRequest, UnknownReference
from chalicelib.api.fields import Described, Name, Shape, Shown, Time, Timestamp
from chalicelib.api.resource import EditableResource, New
from chalicelib.api.rules import Beside, Check, Read, entries, id_of, if_null, max_bytes
from chalicelib.api.words import at_most_bytes
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


def _public_key(value: Any) -> crypto.keys.AuthorizedKey:
    if not isinstance(value, str):
        raise ValueError("must be a string in OpenSSH authorized_keys form")
    if len(value.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"must be at most {_MAX_KEY_BYTES} bytes of UTF-8")
    return crypto.keys.parse_authorized_key(value)


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


def _not_before_1970(value: datetime | None) -> datetime | None:
    if value and value < datetime.fromtimestamp(0, UTC):
        raise ValueError("must not be before 1970, which certificates cannot express")
    return value


def _after_the_start(value: datetime | None, above: Mapping[str, Any]) -> datetime | None:
    start = above.get("valid_after") or clock.now()
    if (value or clock.now() + LIFETIME) <= start:
        raise ValueError("must be after valid_after; unspecified it is 24 hours after creation")
    return value


class CriticalOptions(Shape):
    model_config = {"alias_generator": lambda name: name.replace("_", "-")}

    force_command: Annotated[
        str, Check(_command, {"pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}), max_bytes(16 * 1024)
    ] = ""
    """The only command that the holder may run, whatever they ask for."""

    source_address: Annotated[str, max_bytes(4096), Check(_networks, {"minLength": 1, "format": "networks"})] = ""
    """Comma-separated addresses and CIDR networks that the holder may sign in from."""


class Create(Described):
    model_config = {"validate_default": True}  # the end must be behind the start also where it is left out

    ssh_certificate_authority_id: Annotated[str, id_of("sshca")]
    """The SSH certificate authority that signs it."""

    public_key: Annotated[
        crypto.keys.AuthorizedKey,
        Read(_public_key, {**at_most_bytes(_MAX_KEY_BYTES), "format": "authorized-key"}),
    ]
    """Public key in OpenSSH Authorized Keys format that the certificate signs."""

    principals: Annotated[list[Name], entries(0, 256), if_null([])] = []
    """Usernames the holder may sign in as on a machine that trusts the signing authority. Empty: any user."""

    critical_options: CriticalOptions | None = None
    """What the holder is held to; only `force-command` and `source-address` are defined."""

    extensions: Annotated[
        dict[Name, Annotated[str, max_bytes(1024)]],
        entries(0, 32),
        Check(_extensions),
        if_null(DEFAULT_EXTENSIONS),
    ] = DEFAULT_EXTENSIONS
    """Metadata interpreted by the SSH server (terminal, port forwarding, x11 forwarding and the like).

    Default when unspecified: `permit-pty` and `permit-user-rc`, each with an empty-string value. Those that OpenSSH
    knows take no other value: `permit-pty`, `permit-user-rc`, `permit-port-forwarding`, `permit-agent-forwarding`,
    `permit-X11-forwarding`, `no-touch-required`.
    """

    valid_after: Annotated[Time, Check(_not_before_1970)] = None
    """Start of validity, RFC 3339, not before 1970; default: the current time."""

    valid_until: Annotated[Time, Beside(_after_the_start)] = None
    """End of validity, RFC 3339, after its start; default: 24 hours after creation. OpenSSH calls it valid_before."""


class SSHUserCertificate(Described, Shown):
    """Lets its holder sign in to machines that trust the authority which signed it."""

    public_key: str
    """Public key in OpenSSH Authorized Keys format that the certificate signs."""

    key_type: crypto.keys.KeyType
    """Key type of public_key."""

    ssh_certificate_authority_id: str
    """The SSH certificate authority that signed it."""

    principals: list[str]
    """Usernames the holder may sign in as on a machine that trusts the signing authority. Empty: any user."""

    critical_options: dict[str, str]
    """What the holder is held to: `force-command`, `source-address`."""

    extensions: dict[str, str]
    """Metadata interpreted by the SSH server (terminal, port forwarding, x11 forwarding and the like)."""

    valid_after: Timestamp
    """Start of validity, RFC 3339."""

    valid_until: Timestamp
    """End of validity, RFC 3339. The OpenSSH certificate protocol calls it valid_before."""

    certificate: str
    """The signed certificate in OpenSSH Authorized Keys format."""


def make(caller: Caller, id: str, asked: Create) -> New:
    authority = SSH_CERTIFICATE_AUTHORITIES.referred(
        caller, asked.ssh_certificate_authority_id, field="ssh_certificate_authority_id"
    )
    certificate = crypto.ssh_certificates.UserCertificate(
        key_id=id,
        serial=secrets.randbelow(2**64 - 1) + 1,
        public_key=asked.public_key.key,
        principals=asked.principals,
        valid_after=asked.valid_after or ids.created_at(id),
        valid_until=asked.valid_until or ids.created_at(id) + LIFETIME,
        critical_options=fields.given(asked.critical_options) if asked.critical_options else {},
        extensions=asked.extensions,
    )
    if certificate.valid_until <= certificate.valid_after:  # the second of creation is later than that of the check
        raise InvalidRequest.of({"valid_until": "must be after valid_after"})
    line = crypto.ssh_certificates.sign(certificate, authorities.signing_key(caller, authority))
    return New(_body(asked, certificate, line))


def _body(asked: Create, certificate: crypto.ssh_certificates.UserCertificate, line: str) -> dict[str, Any]:
    return {
        "description": asked.description,
        "metadata": asked.metadata,
        "public_key": asked.public_key.line,
        "key_type": crypto.keys.key_type(certificate.public_key),
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
    shows=SSHUserCertificate,
    make=make,
    refuses={"POST": (UnknownReference,)},
)
