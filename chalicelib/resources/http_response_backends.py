"""HTTP response backends: they answer every request themselves, always with the same response."""

from typing import Annotated

from pydantic import AfterValidator, Field

from chalicelib.api.caller import Caller
from chalicelib.api.fields import Described, Line, Text, form, if_null, if_zero, max_bytes
from chalicelib.api.resource import EditableResource, New

_MAX_HEADER_BYTES = 16 * 1024


def _as_one_head(headers: dict[str, str]) -> dict[str, str]:
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("must not name a header twice, in whatever case")
    if sum(len(f"{name}{value}".encode()) for name, value in headers.items()) > _MAX_HEADER_BYTES:
        raise ValueError(f"must be at most {_MAX_HEADER_BYTES} bytes of UTF-8 together")
    return headers


HeaderName = Annotated[
    str, form(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "must be the name of an HTTP header, for example Content-Type")
]


class Backend(Described):
    status_code: Annotated[int, Field(ge=100, le=599), if_zero(200)] = 200
    headers: Annotated[dict[HeaderName, Line], Field(max_length=50), AfterValidator(_as_one_head), if_null({})] = {}
    body: Annotated[Text, max_bytes(64 * 1024)] = ""


def make(caller: Caller, id: str, asked: Backend) -> New:
    return New(asked.model_dump())


HTTP_RESPONSE_BACKENDS = EditableResource(
    prefix="bkdhr", path="/backends/http_response", items="backends", create=Backend, change=Backend, make=make
)
