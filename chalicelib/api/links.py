"""Where things are: the path of every kind of id, absolute addresses, Refs (SPEC 2.1)."""

import os
import re
from collections.abc import Mapping
from typing import Any

from chalicelib import ids
from chalicelib.api.errors import NotFound

_PATHS = {
    "bkdhr": "/backends/http_response",
    "bkdtg": "/backends/tunnel_group",
    "bkdwd": "/backends/weighted",
    "bot": "/bot_users",
    "ca": "/certificate_authorities",
    "edghts": "/edges/https",
    "edgtcp": "/edges/tcp",
    "edgtls": "/edges/tls",
    "edghtsrt": "/edges/https/{edge_id}/routes",
    "ep": "/endpoints",
    "tn": "/tunnels",
    "ts": "/tunnel_sessions",
    "usr": "/users",
}
_PREFIXES = {path: prefix for prefix, path in _PATHS.items()}


def path_of(id: str) -> str:
    """The path of the list in which an id stands."""
    return _PATHS.get(id.partition("_")[0], "/backends")  # every other kind that an id may be of is a backend


def ref(base_url: str, id: str) -> dict[str, str]:
    """A Ref object: a pointer to another resource."""
    return {"id": id, "uri": f"{base_url}{path_of(id)}/{id}"}


def check(path: str, values: Mapping[str, str]) -> None:
    """Refuse values of a path's variables that are no id of the kind they stand for. Raises NotFound."""
    for variable in re.finditer(r"/\{(\w+)\}", path):
        collection = path[: variable.start()]
        if collection in _PREFIXES and not ids.is_id(values[variable[1]], _PREFIXES[collection]):
            raise NotFound(f"This account has nothing of that id under {collection}.")


def base_url(event: Mapping[str, Any]) -> str:
    """BASE_URL when set, else the scheme, host and stage path under which the request came; no final slash."""
    if configured := os.environ.get("BASE_URL"):
        return configured.rstrip("/")
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme = "https" if headers.get("x-forwarded-proto", "").partition(",")[0].strip() == "https" else "http"
    return f"{scheme}://{headers.get('host', 'localhost')}{_stage_path(event)}"


def _stage_path(event: Mapping[str, Any]) -> str:
    # The gateway's own path starts with the stage, or with the base path of a custom domain; the event's does not.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""
