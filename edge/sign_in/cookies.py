"""The cookies of a route: their names, reading and setting them. Pure."""

import re
from collections.abc import Iterator

from chalicelib.model.edges.sign_in_rules import SignInRule

LOGIN_TIME = 600  # seconds of a sign-in
_COMMON = "Path=/; Secure; HttpOnly; SameSite=Lax"
_PAIR = re.compile(r"[;,] *")  # Envoy joins two Cookie headers of HTTP/1.1 with a comma


def session_name(rule: SignInRule) -> str:
    """Return the name of the cookie with the session token."""
    return f"{rule.cookie_prefix}session.{rule.suffix}"


def id_name(rule: SignInRule) -> str:
    """Return the name of the cookie with the session id."""
    return f"__Host-{rule.cookie_prefix}id.{rule.suffix}"


def login_name(rule: SignInRule) -> str:
    """Return the name of the cookie that binds sign-ins to a browser."""
    return f"__Host-{rule.cookie_prefix}login"


def read(header: str, name: str) -> str:
    """Return the value of a cookie, "" if it is absent or occurs twice."""
    found = [value for own, value in _pairs(header) if own == name]
    return found[0] if len(found) == 1 else ""


def build(name: str, value: str, *, lifetime: int | None = None) -> str:
    """Return a Set-Cookie header. Without a lifetime, in seconds, the cookie ends with the browser's session."""
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
