"""The fields that the certificates of users and hosts share (SPEC 2.4).

A rule stands here without the type of its field where that would import cryptography.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from chalicelib import clock, crypto
from chalicelib.schema.fields import Name, Time
from chalicelib.schema.json_schema import at_most_bytes
from chalicelib.schema.rules import After, Plain, WithData, entries, id_of, if_null

if TYPE_CHECKING:
    from chalicelib.crypto.keys import AuthorizedKey

_MAX_KEY_BYTES = 16 * 1024


def _public_key(value: Any) -> "AuthorizedKey":
    if not isinstance(value, str):
        raise ValueError("must be a string in OpenSSH authorized_keys form")
    if len(value.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"must be at most {_MAX_KEY_BYTES} bytes of UTF-8")
    return crypto.keys.parse_authorized_key(value)


def _not_before_1970(value: datetime | None) -> datetime | None:
    if value and value < datetime.fromtimestamp(0, UTC):
        raise ValueError("must not be before 1970, which certificates cannot express")
    return value


AuthorityId = Annotated[str, id_of("ssh_certificate_authority_id")]
Principals = Annotated[list[Name], entries(0, 256), if_null([])]
ValidAfter = Annotated[Time, After(_not_before_1970)]

# Of the type crypto.keys.AuthorizedKey.
CERTIFIED_KEY = Plain(_public_key, {**at_most_bytes(_MAX_KEY_BYTES), "format": "authorized-key"})


def after_the_start(lifetime: timedelta) -> WithData:
    """Require an end of validity after its start; unspecified it is a lifetime after creation."""
    rule = f"must be after valid_after; unspecified it is {_spelt(lifetime)} after creation"

    def check(value: datetime | None, above: Mapping[str, Any]) -> datetime | None:
        start = above.get("valid_after") or clock.now()
        if (value or clock.now() + lifetime) <= start:
            raise ValueError(rule)
        return value

    return WithData(check)


def _spelt(lifetime: timedelta) -> str:
    return f"{lifetime.days} days" if lifetime.days > 1 else f"{lifetime // timedelta(hours=1)} hours"
