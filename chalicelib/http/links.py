"""Absolute addresses as a request sees them, Refs (SPEC 2.1), and the ids in its path."""

import os
import re
from collections.abc import Mapping
from typing import Any

from chalicelib.http.errors import InvalidRequest, NotFound
from chalicelib.model import kinds

_HOST = re.compile(r"(?:[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def ref(base_url: str, id: str) -> dict[str, str]:
    """Return a Ref object: a pointer to another resource, whose address is "" if it has none. Raises UnknownKind."""
    kind = kinds.of(id)
    return {"id": id, "uri": f"{base_url}{kind.path}/{id}" if kind.served else ""}


def check_ids(path: str, values: Mapping[str, str]) -> None:
    """Refuse values of a path's variables that are no id of the kind they stand for. Raises NotFound."""
    for variable in re.finditer(r"/\{(\w+)\}", path):
        kind = kinds.at(path[: variable.start()])
        if kind and not kind.has(values[variable[1]]):
            raise NotFound(f"This account has nothing of that id under {kind.path}.")


def base_url(event: Mapping[str, Any]) -> str:
    """Return BASE_URL when set, else the scheme, host and stage path under which the request came; no final slash.

    Raises InvalidRequest for a Host header that is no host.
    """
    if configured := os.environ.get("BASE_URL"):
        return configured.rstrip("/")
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme = "https" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else "http"
    host = headers.get("host", "localhost")
    if not is_host(host):  # RFC 9112 asks for a 400; in addresses it would lead anywhere
        raise InvalidRequest.of({"Host": "must be host or host:port"})
    return f"{scheme}://{host}{_stage_path(event)}"


def is_host(text: str) -> bool:
    """Tell whether a text has the form of a host, perhaps with a port."""
    return _HOST.fullmatch(text) is not None


def _stage_path(event: Mapping[str, Any]) -> str:
    # The gateway's own path starts with the stage, or with the base path of a custom domain; the event's does not.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""
