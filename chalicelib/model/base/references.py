"""References between resources. With STRICT_REFERENCES, referenced resources must exist.

Without it, only the form of the ids is checked.
"""

import os

from chalicelib.model.base import kinds
from chalicelib.model.base.records import References
from chalicelib.storage.records import items
from chalicelib.storage.records.references import Reference


def are_strict() -> bool:
    """Return whether STRICT_REFERENCES is set, so that referenced resources must exist."""
    return os.environ.get("STRICT_REFERENCES", "false").strip().lower() == "true"


def list_recorded(account: str, named: References, *, module: str = "") -> tuple[Reference, ...]:
    """Return the references that must be stored in the records of the resources in `named`.

    A resource with a reference in its record cannot be deleted. Without STRICT_REFERENCES, there are no references.
    """
    if not are_strict():
        return ()
    return tuple(
        Reference(module, items.scope(account, kind.path), id, field)
        for field, ids in named.items()
        for id in ids
        if (kind := kinds.identify(id)) is not kinds.USERS  # users with keys cannot be deleted, even without references
    )
