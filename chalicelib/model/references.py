"""References between resources: with STRICT_REFERENCES what an id names must exist, else only its form is checked."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.model import kinds
from chalicelib.model.kinds import Kind
from chalicelib.storage import items
from chalicelib.storage.references import Reference

References = Mapping[str, Iterable[str]]  # the ids that each field of a body holds


def are_strict() -> bool:
    """Tell whether STRICT_REFERENCES is set: each edge, route, backend, authority and bot that is named must exist."""
    return os.environ.get("STRICT_REFERENCES", "false").strip().lower() == "true"


def to_owner(body: Mapping[str, Any]) -> References:
    """Return the reference to the owner of a credential, where a body names it."""
    return {"owner_id": [body["owner_id"]]} if "owner_id" in body else {}


def recorded(account: str, named: References, *, module: str = "") -> tuple[Reference, ...]:
    """Return the references to record at their targets, which then cannot be deleted; none unless they are strict."""
    if not are_strict():
        return ()
    return tuple(
        Reference(module, items.scope(account, kind.path), id, field)
        for field, ids in named.items()
        for id in ids
        if (kind := kinds.of(id)) is not kinds.USERS  # who are never deleted
    )


def to_parent(kind: Kind, scope: str, *, max_referrers: int) -> Reference | None:
    """Return the reference from the items of a scope to their parent, which is always recorded; None without one."""
    parent = items.parent(scope) if kind.parent else None
    return Reference("", *parent, kind.parent.variable, max_referrers) if parent and kind.parent else None
