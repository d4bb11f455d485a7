"""One worked example for every request and response."""

from collections.abc import Mapping
from typing import Any

from chalicelib.api.endpoints import Endpoint
from infra.openapi.names import Named


def id(prefix: str) -> str:
    return f"{prefix}_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"


def asked(name: Named) -> dict[str, Any] | None:
    return None


def shown(name: Named, endpoint: Endpoint, prefixes: Mapping[str, str]) -> dict[str, Any] | None:
    return None
