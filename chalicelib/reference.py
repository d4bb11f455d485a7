"""The reference of the API: its OpenAPI document, for everyone. `make openapi` makes it of what is offered here."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from chalicelib.api import caller
from chalicelib.api.endpoints import Call, Endpoint
from chalicelib.api.fields import Shape

DOCUMENT = Path(__file__).with_name("openapi.json")


class OpenAPI(Shape):
    """An OpenAPI document."""

    model_config = {"extra": "allow"}

    openapi: str
    """The version of OpenAPI."""


@cache
def _document() -> dict[str, Any]:
    text = DOCUMENT.read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text.replace(caller.VERSION_HEADER, caller.version_headers()[0]))
    return document


def show(call: Call) -> dict[str, Any]:
    """The document, with the address that it was asked for at and the version header of this deployment."""
    return {**_document(), "servers": [{"url": call.base_url}]}


class _Reference:
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/openapi.json", 200, show, shows=OpenAPI, authorizer=None),)


REFERENCE = _Reference()
