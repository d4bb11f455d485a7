"""Shards of a collection. A partition takes 500 changes a second, so a busy collection has nine.

A quiet collection has only the first shard, at no additional cost. When DynamoDB throttles a process's write, the
process marks the collection as sharded, permanently, and from then on distributes its own writes over the other eight
shards by id. Readers read all shards of a marked collection. Before the mark exists, only the first shard is used.

Marks are records without a body. Their ids sort after all others, so that the newest page begins with them.
"""

import zlib
from collections.abc import Iterable
from typing import Protocol, TypeVar

COUNT = 9  # with the first, which gets no new items once the others are used
MARKS = "~"  # the prefix of the ids of marks
MARK = f"{MARKS}shards"

_MAX_SHARDED = 10_000  # collections
_sharded: set[str] = set()  # the collections that this process writes to all shards


class Identified(Protocol):
    """An object with an id."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


def of(id: str) -> int:
    """Return the shard of an id in a sharded collection."""
    return 1 + zlib.crc32(id.encode()) % (COUNT - 1)


def scope(collection: str, shard: int) -> str:
    """Return the scope of a shard. The first shard has the collection's scope."""
    return f"{collection}/{shard}" if shard else collection


def others(collection: str) -> list[str]:
    """Return the scopes of all shards except the first."""
    return [scope(collection, shard) for shard in range(1, COUNT)]


def next_for(collection: str, id: str) -> int:
    """Return the shard for a new item."""
    return of(id) if collection in _sharded else 0


def use(collection: str) -> None:
    """Distribute this process's new items of a collection over its shards. It must be marked already."""
    if len(_sharded) >= _MAX_SHARDED:
        _sharded.clear()  # a collection that is throttled again is added again
    _sharded.add(collection)


def merge_pages(pages: Iterable[tuple[list[T], bool]], count: int) -> tuple[list[T], bool]:
    """Merge one page per shard, newest first. Return at most `count` items and whether there are more.

    Each page is its items and whether its shard has more.
    """
    known = list(pages)
    # Older than the end of an incomplete page, items of other shards may not be the next ones.
    oldest = max((page[-1].id for page, has_more in known if has_more), default="")
    every = sorted((it for page, _ in known for it in page if it.id >= oldest), key=lambda it: it.id, reverse=True)
    return every[:count], bool(oldest) or len(every) > count
