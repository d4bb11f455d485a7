"""The headers that a route may set and remove. This file does no I/O.

A route must not change headers that the edge sets or that the protocol needs, because the upstream would then read
something else than the edge.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Iterable[str])

MAX_CHANGES = 10  # the most headers in `add`, and also the most in `remove`
MAX_NAME, MAX_VALUE = 64, 1024  # the most characters of a header's name and value

NAME = rf"[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,{MAX_NAME}}}"
_VALUE = r"[\t\x20-\x7e]*"
VALUE = r"([!-~]([\t -~]*[!-~])?)?"  # a header value without spaces or tabs at its start and end
_CONNECTION = r"connection|content-length|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade"
_REQUEST = rf"(?:{_CONNECTION}|expect|x-request-id)"
_RESPONSE = rf"(?:{_CONNECTION}|alt-svc|content-encoding|x-envoy-.*)"


def check_request_name(name: str) -> str:
    """Return the name of a request header. Raises ValueError if routes must not change it."""
    # imported here, because compiling the long expression of `claims` takes time, and only requests with a body need it
    from chalicelib.model.edges.headers import claims

    _check_form(name)
    if re.fullmatch(_REQUEST, _normalize(name)) or re.fullmatch(claims.REGEX, name.lower()):
        raise ValueError(
            "must not be a header that the edge or the protocol sets, such as Host, Content-Length or X-Forwarded-For,"
            " or one from which servers read who the visitor is, such as Remote-User"
        )
    return name


def check_response_name(name: str) -> str:
    """Return the name of a response header. Raises ValueError if routes must not change it."""
    _check_form(name)
    if re.fullmatch(_RESPONSE, _normalize(name)):
        raise ValueError(
            "must not be a header that the edge or the protocol sets, such as Content-Length or Content-Encoding"
        )
    return name


def check_value(value: str) -> str:
    """Return the value of a header. Raises ValueError if it is not allowed in a header."""
    if not re.fullmatch(_VALUE, value) or len(value) > MAX_VALUE:
        raise ValueError(f"must be at most {MAX_VALUE:,} printable ASCII characters")
    if value != value.strip():
        raise ValueError("must not begin or end with a space or tab")
    return value


def check_changes(add: Mapping[str, str], remove: Collection[str], check: Callable[[str], str]) -> None:
    """Raise ValueError unless a route may change these headers. `check` is called with each header's name."""
    for names in (add, remove):
        check_once(names)
        if len(names) > MAX_CHANGES:
            raise ValueError(f"must have at most {MAX_CHANGES} entries")
        for name in names:
            check(name)
    for value in add.values():
        check_value(value)


def check_once(names: N) -> N:
    """Return names of headers. Raises ValueError if a name occurs twice, regardless of case."""
    lower = [name.lower() for name in names]
    if len({*lower}) < len(lower):
        raise ValueError("must not contain a header twice: names are case-insensitive")
    return names


def _check_form(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise ValueError(f"must be the name of a header, of at most {MAX_NAME} characters")


def _normalize(name: str) -> str:
    """Return a name as some servers read it: all characters except letters and digits become hyphens."""
    return re.sub("[^a-z0-9]", "-", name.lower())
