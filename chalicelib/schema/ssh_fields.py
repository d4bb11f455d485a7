"""Fields of requests for user and host SSH certificates (SPEC 2.4). Policies of SSH authorities also use some of them.

CERTIFIED_KEY is a rule without its field's type, because this type would import cryptography.
"""

import ipaddress
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from chalicelib import clock, crypto
from chalicelib.model.ssh import acl
from chalicelib.schema.fields import Name, Time
from chalicelib.schema.json_schema import at_most_bytes
from chalicelib.schema.rules import After, Plain, WithData, entries, id_of, if_null, max_bytes
from chalicelib.schema.shapes import Shape

if TYPE_CHECKING:
    from chalicelib.crypto.keys import AuthorizedKey

_MAX_KEY_BYTES = 16 * 1024
# does not match netmasks such as /255.0.0.0 and zones such as %eth0: sshd would refuse certificates with these
_NETWORK = r"[0-9A-Fa-f.:]+(/[0-9]{1,3})?"
_CRITICAL = ("force-command", "source-address", "verify-required")  # all critical options that OpenSSH supports
_WITHOUT_VALUE = {  # extensions that must have no value: otherwise sshd refuses the certificate
    "no-touch-required",
    "permit-X11-forwarding",
    "permit-agent-forwarding",
    "permit-port-forwarding",
    "permit-pty",
    "permit-user-rc",
}


def _parse_public_key(value: Any) -> "AuthorizedKey":
    if not isinstance(value, str):
        raise ValueError("must be a string in OpenSSH authorized_keys form")
    if len(value.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"must be at most {_MAX_KEY_BYTES} bytes of UTF-8")
    return crypto.keys.parse_authorized_key(value)


def _require_after_1970(value: datetime | None) -> datetime | None:
    if value and value < datetime.fromtimestamp(0, UTC):
        raise ValueError("must not be before 1970: certificates cannot express that")
    return value


def _check_networks(text: str) -> str:
    for network in text.split(","):
        try:
            if not re.fullmatch(_NETWORK, network):
                raise ValueError
            ipaddress.ip_network(network)
        except ValueError:
            raise ValueError("must be a comma-separated list of addresses or CIDR networks") from None
    return text


def _check_command(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must be a command without NUL characters, and not empty")
    return text


def _reject_critical(name: str) -> str:
    if name in _CRITICAL:
        raise ValueError("is a critical option and has no effect as an extension: use critical_options")
    return name


def _check_extensions(values: dict[str, str]) -> dict[str, str]:
    if faulty := sorted(name for name in _WITHOUT_VALUE & values.keys() if values[name]):
        raise ValueError(f"must have an empty string for {' and '.join(faulty)}: OpenSSH accepts no value there")
    return values


def check_bind(extensions: Mapping[str, str]) -> dict[str, str]:
    """Return the error message for malformed bind rules in the extension bind@tunnel-edge, by field."""
    try:
        if acl.EXTENSION in extensions:
            acl.split(extensions[acl.EXTENSION])
    except ValueError as error:
        return {f"extensions.{acl.EXTENSION}": str(error)}
    return {}


AuthorityId = Annotated[str, id_of("ssh_certificate_authority_id")]
Principals = Annotated[list[Name], entries(0, 256), if_null([])]
ValidAfter = Annotated[Time, After(_require_after_1970)]
ExtensionName = Annotated[Name, After(_reject_critical)]
Extensions = Annotated[dict[ExtensionName, Annotated[str, max_bytes(1024)]], entries(0, 32), After(_check_extensions)]

# The rule for a field with the public key of a requested certificate. The type of this field must be
# `crypto.keys.AuthorizedKey`, which this file imports only for type checkers.
CERTIFIED_KEY = Plain(_parse_public_key, {**at_most_bytes(_MAX_KEY_BYTES), "format": "authorized-key"})


def after_start(lifetime: timedelta) -> WithData:
    """Require that a certificate's validity ends after its start. By default it ends `lifetime` after its creation."""
    rule = f"must be after valid_after; the default is {_format_lifetime(lifetime)} after creation"

    def check(value: datetime | None, above: Mapping[str, Any]) -> datetime | None:
        start = above.get("valid_after") or clock.now()
        if (value or clock.now() + lifetime) <= start:
            raise ValueError(rule)
        return value

    return WithData(check)


def _format_lifetime(lifetime: timedelta) -> str:
    return f"{lifetime.days} days" if lifetime.days > 1 else f"{lifetime // timedelta(hours=1)} hours"


class CriticalOptions(Shape):
    model_config = {"alias_generator": lambda name: name.replace("_", "-")}

    force_command: Annotated[
        str, After(_check_command, {"pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}), max_bytes(16 * 1024)
    ] = ""
    """The only command that the holder can run, whatever the client requests."""

    source_address: Annotated[str, max_bytes(4096), After(_check_networks, {"minLength": 1, "format": "networks"})] = ""
    """Comma-separated addresses and CIDR networks from which the holder can sign in."""
