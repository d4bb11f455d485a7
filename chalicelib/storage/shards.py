"""Shards of a collection: one partition takes 500 changes a second, so a busy collection has nine.

A quiet one has the first alone, and pays for nothing. A process whose write the store turns away, since that partition
is hot, marks the collection for good and spreads its own writes by their ids from then on. What is marked is read from
all shards: nothing is in another than the first before the mark.

Marks are records without a body whose ids sort behind all others, so that the newest page begins with them.
"""

import zlib
from collections.abc import Iterable
from typing import Protocol, TypeVar

COUNT = 9  # with the first, which takes no more once the others are there
MARKS = "~"  # with which the ids of marks begin
MARK = f"{MARKS}shards"

_MAX_KNOWN = 10_000  # collections
_spread: set[str] = set()  # those that this process spreads


class Identified(Protocol):
    """Whatever has an id."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


def of(id: str) -> int:
    """Return the shard of an id where its collection is busy."""
    return 1 + zlib.crc32(id.encode()) % (COUNT - 1)


def scope(collection: str, shard: int) -> str:
    """Return the scope of a shard: the first one is the collection's own."""
    return f"{collection}/{shard}" if shard else collection


def others(collection: str) -> list[str]:
    """Return the scopes of all shards but the first."""
    return [scope(collection, shard) for shard in range(1, COUNT)]


def next_for(collection: str, id: str) -> int:
    """Return the shard for something new."""
    return of(id) if collection in _spread else 0


def spread(collection: str) -> None:
    """Spread what this process adds to a collection, which is marked by now."""
    if len(_spread) >= _MAX_KNOWN:
        _spread.clear()  # who is turned away once more is here again
    _spread.add(collection)


def merged(pages: Iterable[tuple[list[T], bool]], count: int) -> tuple[list[T], bool]:
    """Return at most `count` of some pages, newest first, and whether there is more; a page says that of itself too."""
    known = list(pages)
    # Beyond the end of a page that goes on, what the other pages have may not be the next.
    reached = max((found[-1].id for found, has_more in known if has_more), default="")
    every = sorted((it for found, _ in known for it in found if it.id >= reached), key=lambda it: it.id, reverse=True)
    return every[:count], bool(reached) or len(every) > count
