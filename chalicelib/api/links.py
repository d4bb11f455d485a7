"""Absolute addresses: every `uri`, `next_page_uri` and Ref (SPEC 2.1)."""

import os
from collections.abc import Mapping
from typing import Any


def base_url(event: Mapping[str, Any]) -> str:
    """BASE_URL when set, else the scheme, host and stage path under which the request came; no final slash."""
    if configured := os.environ.get("BASE_URL"):
        return configured.rstrip("/")
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme = headers.get("x-forwarded-proto", "http").partition(",")[0].strip()
    return f"{scheme}://{headers.get('host', 'localhost')}{_stage_path(event)}"


def _stage_path(event: Mapping[str, Any]) -> str:
    # The gateway's own path starts with the stage, or with the base path of a custom domain; the event's does not.
    full, path = event["requestContext"].get("path", ""), event.get("path", "")
    return str(full.removesuffix(path)).rstrip("/") if path else ""


def ref(base_url: str, path: str, id: str) -> dict[str, str]:
    """A Ref object: a pointer to another resource."""
    return {"id": id, "uri": f"{base_url}{path}/{id}"}
