"""Places of records, which can differ from the scopes and ids of their items.

All routes of an account are in one collection, ordered by edge, so that one query reads the routes of a page of edges:
the route R of the edge E has the scope `acct_…#/edges/https/E/routes`, and its record the scope
`acct_…#/edges/https/routes` and the id `E/R`. In format 2, which 2.0.0 writes, the record has the scope and id of the
route. RECORD_FORMAT selects the format that is written; all are read. In format 4, records of API keys have what 2.0.0
cannot read: networks, scopes with ids, tokens with a checksum.

A collection can be divided into shards, because one partition takes 500 changes a second: SSH certificates in format
3 (`acct_…#/ssh_user_certificates/N`), and audit events. A quiet collection has only the first shard. When
DynamoDB throttles a write, the process marks the collection for good and puts its new items into shards by id from then
on. A marked collection is read from all shards. Marks are records without a body whose ids sort after all others, so
that the newest page begins with them.
"""

import os
import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

from chalicelib.storage.records import shards

Place = tuple[str, str]  # the scope and id of a record

MARKS = "~"  # with which the ids of marks begin
MARK = f"{MARKS}shards"

_MAX_KNOWN = 10_000  # collections
_spread: set[str] = set()  # those that this process spreads

_TOGETHER = re.compile(r"([^#]+#/edges/https)/([^/]+)(/routes)")
_SHARDED = re.compile(r"([^#]+#/ssh_(?:host|user)_certificates)(/[0-9]+)?")
_COLLECTION = re.compile(r"([^#]+#/edges/https)(/routes)")


def latest(scope: str, id: str) -> Place:
    """Return the place of an item's record in format 3."""
    collection, before = collected(scope)
    return collection, f"{before}{id}"


def written(scope: str, id: str) -> Place:
    """Return the place for the record of a new item."""
    if written_format() < 3:
        return scope, id
    if is_sharded(scope):
        return next_place(scope, id)[0], id
    return latest(scope, id)


def possible(scope: str, id: str) -> list[Place]:
    """Return where the record of an item can be, in an order that finds a record which is moved meanwhile."""
    own, last = (scope, id), latest(scope, id)
    places = [last]
    if is_sharded(scope):
        places.append((shards.further(scope).scope_of(id), id))
    if last != own:
        places.append(own)
    if last != own or (is_sharded(scope) and written_format() < 3):
        places.append(last)
    return places


def lasting(place: Place) -> Place:
    """Return the place to which a record of any format is migrated. A record stays in its shard."""
    scope, id = of_item(*place)
    if written_format() < 3:
        return scope, id
    return place if is_sharded(scope) else latest(scope, id)


def is_sharded(scope: str) -> bool:
    """Return whether a scope is a collection that can have shards."""
    return (found := _SHARDED.fullmatch(scope)) is not None and not found[2]


def collected(scope: str) -> tuple[str, str]:
    """Return the scope of the records of a scope's items, and the prefix of their ids there."""
    if found := _TOGETHER.fullmatch(scope):
        return f"{found[1]}{found[3]}", f"{found[2]}/"
    return scope, ""


def of_item(scope: str, id: str) -> tuple[str, str]:
    """Return the scope and id of the item of a record of any format."""
    if found := _SHARDED.fullmatch(scope):
        return found[1], id
    if "/" in id and (found := _COLLECTION.fullmatch(scope)):
        above, _, own = id.partition("/")
        return f"{found[1]}/{above}{found[2]}", own
    return scope, id


def written_format() -> int:
    """Return the format of new records: 4, or an earlier one while an earlier version may read them."""
    return int(_setting() or 4)


def is_latest_format() -> bool:
    """Return whether new records can have what only format 4 stores: bounds of keys, and new fields of policies."""
    return written_format() >= 4


def is_format_selected() -> bool:
    """Return whether the environment selects the format of new records."""
    return bool(_setting())


def _setting() -> str:
    return os.environ.get("RECORD_FORMAT") or os.environ.get("RECORDS_EDITION") or ""  # the name before 3.0.0


class Identified(Protocol):
    """Whatever has an id."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


def next_place(collection: str, id: str) -> tuple[str, int]:
    """Return the scope for a new item of a collection, and the number of its shard."""
    if collection not in _spread:
        return collection, 0
    others = shards.further(collection)
    return others.scope_of(id), others.number_of(id)


def spread(collection: str) -> None:
    """Put the items that this process adds to a collection into shards. The collection must be marked."""
    if len(_spread) >= _MAX_KNOWN:
        _spread.clear()  # who is turned away once more is here again
    _spread.add(collection)


def merged(pages: Iterable[tuple[list[T], bool]], count: int) -> tuple[list[T], bool]:
    """Merge pages into one of at most `count` items, newest first; return it and whether there are more."""
    known = list(pages)
    # Beyond the end of a page that goes on, what the other pages have may not be the next.
    reached = max((found[-1].id for found, has_more in known if has_more), default="")
    every = sorted((it for found, _ in known for it in found if it.id >= reached), key=lambda it: it.id, reverse=True)
    return every[:count], bool(reached) or len(every) > count
