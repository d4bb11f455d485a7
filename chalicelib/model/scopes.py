"""Scopes: what an API key may do. `*` is everything, `<collection>:read` and `<collection>:write` one collection.

A collection is the first segment of a path, with all that lies beneath; write does not include read.
"""

from collections.abc import Sequence

from chalicelib.model import kinds

ALL, READ_ALL = "*", "*:read"


def known() -> tuple[str, ...]:
    """Return every scope that there is."""
    collections = sorted({kind.path.split("/")[1] for kind in kinds.TABLE if kind.array})
    return (ALL, READ_ALL, *(f"{name}:{verb}" for name in collections for verb in ("read", "write")))


def wanted(method: str, path: str) -> str:
    """Return the scope that a method on a path needs."""
    return f"{path.split('/')[1]}:{'read' if method == 'GET' else 'write'}"


def cover(scopes: Sequence[str], scope: str) -> bool:
    """Tell whether a key with these scopes may do all that another scope allows; a key without scopes may."""
    return not scopes or ALL in scopes or scope in scopes or (scope.endswith(":read") and READ_ALL in scopes)
