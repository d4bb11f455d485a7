"""Scopes: the reach of an API key. `*` is everything, `<collection>:read` and `<collection>:write` one collection.

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
    """Whether a key with these scopes has the reach of another scope; without scopes it has every reach."""
    return not scopes or ALL in scopes or scope in scopes or (scope.endswith(":read") and READ_ALL in scopes)
