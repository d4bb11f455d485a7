"""GET /openapi.json: the OpenAPI document, without authentication. `make openapi` builds it from the routes."""

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from chalicelib.http import auth, messages
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import NotFound
from chalicelib.http.static import Static
from chalicelib.model.accounts import scopes
from chalicelib.schema.shapes import Shape

FILE = Path(__file__).with_name("openapi.json")


def operations() -> Iterator[dict[str, Any]]:
    """Yield each operation with its method, path, required scope, and error codes by status. Raises NotFound."""
    document = _read_document()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            is_open = operation.get("security") == []
            yield {
                "method": method.upper(),
                "path": path,
                "operation": operation["operationId"],
                "scope": None if is_open else scopes.find_required(method.upper(), path),
                "refusals": {
                    status: [*_list_codes(operation, status)] for status in operation["responses"] if status >= "400"
                },
            }


def _list_codes(operation: dict[str, Any], status: str) -> Iterator[str]:
    """Yield the error codes in the examples of an operation's response with this status."""
    components, name = _read_document()["components"], operation["responses"][status]["$ref"].rpartition("/")[2]
    examples = components["responses"][name]["content"]["application/json"]["examples"].values()
    samples = [components["examples"][example["$ref"].rpartition("/")[2]] for example in examples]
    yield from dict.fromkeys(example["value"]["error_code"] for example in samples)


class OpenAPI(Shape):
    """An OpenAPI document."""

    model_config = {"extra": "allow"}

    openapi: str
    """The version of OpenAPI."""


_HEADERS = {
    "Content-Type": "application/json",
    "Cache-Control": "no-cache",  # clients must ask before each use whether their copy is current
}


@cache
def _read_document() -> dict[str, Any]:
    """Return the document with the version header of this deployment. Raises NotFound if the build did not make it."""
    try:
        text = FILE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound("This server was built without its OpenAPI document: run 'make openapi'.") from None
    document: dict[str, Any] = json.loads(text.replace(auth.VERSION_HEADER, auth.version_headers()[0]))
    return document


def show(call: Call) -> Static:
    """Return the document with the base URL of the request and the version header of this deployment."""
    return _build_response(call.base_url)


# clients can send any Host header, so the number of cached documents must be limited
@lru_cache(maxsize=8)
def _build_response(base_url: str) -> Static:
    return Static(messages.text({**_read_document(), "servers": [{"url": base_url}]}), _HEADERS)


class _Document:
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/openapi.json", 200, show, response=OpenAPI, authorizer=None),)


ROUTES = _Document()
