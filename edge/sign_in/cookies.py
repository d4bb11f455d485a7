"""Reads cookies, and builds Set-Cookie headers. This file does no I/O."""

import re
from collections.abc import Iterator

LOGIN_TIME = 600  # seconds in which a visitor must complete a sign-in
_COMMON = "Path=/; Secure; HttpOnly; SameSite=Lax"
_PAIR = re.compile(r"[;,] *")  # a comma too: Envoy joins two Cookie headers of HTTP/1.1 with a comma


def read(header: str, name: str) -> str:
    """Return the value of a cookie. Return "" if it is absent or occurs twice."""
    values = [value for key, value in _pairs(header) if key == name]
    return values[0] if len(values) == 1 else ""


def build(name: str, value: str, *, lifetime: int | None = None) -> str:
    """Return a Set-Cookie header. Without `lifetime` (seconds), the browser deletes the cookie when it closes."""
    age = "" if lifetime is None else f"; Max-Age={lifetime}"
    return f"{name}={value}; {_COMMON}{age}"


def build_removal(name: str) -> str:
    """Return the Set-Cookie header that removes a cookie."""
    return build(name, "", lifetime=0)


def _pairs(header: str) -> Iterator[tuple[str, str]]:
    for pair in _PAIR.split(header):
        name, separator, value = pair.partition("=")
        if separator:
            yield name.strip(), value.strip()
