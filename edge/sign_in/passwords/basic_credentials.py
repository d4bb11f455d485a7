"""Parses the credentials of HTTP Basic authentication (RFC 7617). This file does no I/O."""

import base64
import binascii
from typing import NamedTuple

_LONGEST = 2048  # the most characters of the header: the longest user name and password need fewer


class BasicCredentials(NamedTuple):
    """A user name and a password."""

    username: str
    password: str


def parse(header: str) -> BasicCredentials | None:
    """Return the credentials in an `Authorization` header. Return None if it is missing or not HTTP Basic."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > _LONGEST:
        return None
    try:
        username, colon, password = base64.b64decode(encoded.strip(" "), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return BasicCredentials(username, password) if colon else None
