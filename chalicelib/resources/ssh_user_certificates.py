"""SSH user certificates (SPEC 2.4). Signed at creation and never again: a change alters only what describes them."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from typing import Annotated, Any

from chalicelib import crypto
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource, New
from chalicelib.model import kinds, ssh_revocations
from chalicelib.resources import ssh_signing
from chalicelib.schema.fields import Described, Name, Shown, Time, Timestamp
from chalicelib.schema.rules import After, Before, entries, max_bytes
from chalicelib.schema.shapes import Shape
from chalicelib.schema.ssh_fields import CERTIFIED_KEY, AuthorityId, Principals, ValidAfter, after_the_start

LIFETIME = timedelta(hours=24)
DEFAULT_EXTENSIONS = {"permit-pty": "", "permit-user-rc": ""}
_NETWORK = re.compile(r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?")  # sshd refuses certificates with netmasks and scopes
_CRITICAL = ("force-command", "source-address", "verify-required")  # which OpenSSH knows
_WITHOUT_VALUE = {  # sshd refuses certificates with one
    "no-touch-required",
    "permit-X11-forwarding",
    "permit-agent-forwarding",
    "permit-port-forwarding",
    "permit-pty",
    "permit-user-rc",
}


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


def _not_critical(name: str) -> str:
    if name in _CRITICAL:
        raise ValueError("is a critical option: as an extension it would be signed and mean nothing")
    return name


def _extensions(values: dict[str, str]) -> dict[str, str]:
    if faulty := sorted(name for name in _WITHOUT_VALUE & values.keys() if values[name]):
        raise ValueError(f"must hold {' and '.join(faulty)} with an empty string, as OpenSSH knows no value there")
    return values


ExtensionName = Annotated[Name, After(_not_critical, {"not": {"enum": [*_CRITICAL]}})]


class CriticalOptions(Shape):
    model_config = {"alias_generator": lambda name: name.replace("_", "-")}

    force_command: Annotated[
        str, After(_command, {"pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}), max_bytes(16 * 1024)
    ] = ""
    """The only command that the holder may run, whatever they ask for."""

    source_address: Annotated[str, max_bytes(4096), After(_networks, {"minLength": 1, "format": "networks"})] = ""
    """Comma-separated addresses and CIDR networks that the holder may sign in from."""


class Create(Described):
    model_config = {"validate_default": True}  # the end must be behind the start also where it is left out

    ssh_certificate_authority_id: AuthorityId
    """The SSH certificate authority that signs it."""

    public_key: Annotated[crypto.keys.AuthorizedKey, CERTIFIED_KEY]
    """Public key in OpenSSH Authorized Keys format that the certificate signs."""

    principals: Principals = []
    """Usernames the holder may sign in as on a machine that trusts the signing authority. Empty: any user."""

    critical_options: CriticalOptions | None = None
    """What the holder is held to; only `force-command` and `source-address` are defined."""

    extensions: Annotated[
        dict[ExtensionName, Annotated[str, max_bytes(1024)]],
        entries(0, 32),
        After(_extensions),
        Before(lambda given: DEFAULT_EXTENSIONS if given in (None, {}) else given, also=(None, {})),
    ] = DEFAULT_EXTENSIONS
    """Metadata interpreted by the SSH server (terminal, port forwarding, x11 forwarding and the like).

    Default when unspecified, and for an empty object: `permit-pty` and `permit-user-rc`, each with an empty-string
    value. Whoever names any extension gets exactly those. The ones that OpenSSH knows take no other value:
    `permit-pty`, `permit-user-rc`, `permit-port-forwarding`, `permit-agent-forwarding`, `permit-X11-forwarding`,
    `no-touch-required`. Critical options are none.
    """

    valid_after: ValidAfter = None
    """Start of validity, RFC 3339, not before 1970; default: the current time."""

    valid_until: Annotated[Time, after_the_start(LIFETIME)] = None
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


def make(caller: Caller, id: str, request: Create) -> New:
    authority = ssh_signing.authority(caller, request.ssh_certificate_authority_id)
    options: dict[str, Any] = {
        "critical_options": request.critical_options.fields_set() if request.critical_options else {},
        "extensions": request.extensions,
    }
    certificate = crypto.ssh_certificates.UserCertificate(**ssh_signing.common(id, request, LIFETIME), **options)
    return ssh_signing.signed(certificate, authority, request, options)


RESOURCE = EditableResource(
    kind=kinds.SSH_USER_CERTIFICATES,
    create=Create,
    response=SSHUserCertificate,
    make=make,
    errors={"POST": (UnknownReference, Conflict), "DELETE": (Conflict,)},
    remove=ssh_revocations.delete_certificate,
)
