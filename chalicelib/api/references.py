"""References between resources: with STRICT_REFERENCES nothing points at nothing, without it an id's form will do."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.api import links
from chalicelib.api.caller import Caller
from chalicelib.storage.pointers import Pointer

References = Mapping[str, Iterable[str]]  # the ids that each field of a body names


def are_strict() -> bool:
    """Whether every edge, route, backend and authority that is named must be known."""
    return os.environ.get("STRICT_REFERENCES", "false").strip().lower() == "true"


def owner(body: dict[str, Any]) -> References:
    """The owner of a credential, where a body names it."""
    return {"owner_id": [body["owner_id"]]} if "owner_id" in body else {}


def pointers(caller: Caller, references: References, *, part: str = "") -> tuple[Pointer, ...]:
    """What is to be recorded at the targets so that they stay: nothing unless references are strict."""
    if not are_strict():
        return ()
    return tuple(
        Pointer(part, caller.scope(links.path_of(id)), id, field)
        for field, named in references.items()
        for id in named
        if id.partition("_")[0] != "usr"  # users are never deleted
    )
