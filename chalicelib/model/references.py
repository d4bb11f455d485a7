"""References between resources: with STRICT_REFERENCES what an id names must exist, else only its form is checked."""

import os

from chalicelib.model import kinds
from chalicelib.model.records import References
from chalicelib.storage import items
from chalicelib.storage.references import Reference


def are_strict() -> bool:
    """Tell whether STRICT_REFERENCES is set: each edge, route, backend, authority and bot that is named must exist."""
    return os.environ.get("STRICT_REFERENCES", "false").strip().lower() == "true"


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
