"""Absolute URLs, Refs (SPEC 2.1), and checks of the ids in paths."""

import os
import re
from collections.abc import Mapping
from typing import Any

from chalicelib.http.errors import InvalidRequest, NotFound
from chalicelib.model import kinds

_HOST = re.compile(r"(?:[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def ref(base_url: str, id: str) -> dict[str, str]:
    """Return a Ref object for a resource. Its uri is "" if the API does not serve the kind.

    Raises UnknownKind.
    """
    kind = kinds.of(id)
    return {"id": id, "uri": f"{base_url}{kind.path}/{id}" if kind.served else ""}


def check_ids(path: str, values: Mapping[str, str]) -> None:
    """Raise NotFound if a variable of a path is not an id of its kind."""
    for variable in re.finditer(r"/\{(\w+)\}", path):
        kind = kinds.at(path[: variable.start()])
        if kind and not kind.has(values[variable[1]]):
            raise NotFound(f"This account has no resource with that id under {kind.path}.")


def base_url(event: Mapping[str, Any]) -> str:
    """Return BASE_URL, or else the scheme, host and stage path of the request.

    There is no slash at the end. Raises InvalidRequest if the Host header is malformed.
    """
    if configured := os.environ.get("BASE_URL"):
        return configured.rstrip("/")
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme = "https" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else "http"
    host = headers.get("host", "localhost")
    if not is_host(host):  # RFC 9112 requires a 400, and URLs must not contain it
        raise InvalidRequest.of({"Host": "must be host or host:port"})
    return f"{scheme}://{host}{_stage_path(event)}"


def is_host(text: str) -> bool:
    """Return whether a text has the form of a host, with or without a port."""
    return _HOST.fullmatch(text) is not None


def _stage_path(event: Mapping[str, Any]) -> str:
    # The gateway's path starts with the stage, or with the base path of a custom domain; the event's path does not.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""
