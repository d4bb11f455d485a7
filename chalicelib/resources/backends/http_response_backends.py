"""HTTP response backends, which answer every request with the same response."""

from typing import Annotated

from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.schema.fields import DescribedShape, Line, Shown, Text
from chalicelib.schema.json_schema import MAX_BYTES
from chalicelib.schema.rules import After, between, entries, form, if_null, if_zero, max_bytes

# Headers that a backend must not set. They are about the connection or the length of the body (RFC 9110, 7.6.1 and
# 8.6), or Envoy rejects them.
_NOT_OF_A_RESPONSE = (
    *("connection", "content-length", "host", "keep-alive", "proxy-connection"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
)
_MAX_HEADER_BYTES, _MAX_BODY_BYTES = 16 * 1024, 64 * 1024


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("must not contain a header twice: names are case-insensitive")
    if sum(len(f"{name}{value}".encode()) for name, value in headers.items()) > _MAX_HEADER_BYTES:
        raise ValueError(f"must have names and values of at most {_MAX_HEADER_BYTES} bytes in total, in UTF-8")
    return headers


_ONE_HEAD = After(_check_headers, {MAX_BYTES: _MAX_HEADER_BYTES})


def _check_header_name(name: str) -> str:
    if name.lower() in _NOT_OF_A_RESPONSE:
        raise ValueError(f"must not be one of {', '.join(_NOT_OF_A_RESPONSE)}")
    return name


HeaderName = Annotated[
    str,
    form(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "must be the name of an HTTP header, for example Content-Type"),
    After(_check_header_name),
]


class Answer(DescribedShape):
    status_code: Annotated[int, between(200, 599), if_zero(200)] = 200
    """HTTP status of the response. A status below 200 would not complete the response."""

    headers: Annotated[dict[HeaderName, Line], entries(0, 50), _ONE_HEAD, if_null({})] = {}
    f"""Headers of the response by name, at most {_MAX_HEADER_BYTES // 1024} KiB together.

    These are not allowed, in any case: {", ".join(_NOT_OF_A_RESPONSE)}."""

    body: Annotated[Text, max_bytes(_MAX_BODY_BYTES)] = ""
    f"""Body of the response, at most {_MAX_BODY_BYTES // 1024} KiB."""


class HTTPResponseBackend(Answer, Shown):
    """A backend that answers every request with the same response."""


RESOURCE = EditableResource(
    kind=kinds.HTTP_RESPONSE_BACKENDS,
    stored=HttpResponse,
    create=Answer,
    change=Answer,
    response=HTTPResponseBackend,
    errors={"DELETE": (Conflict,)},
)
