"""Primary keys of records ("item keys"). They can differ from the `scope` and `id` of the items in the records.

The format of records decides their primary keys. The setting RECORD_FORMAT selects the format of writes. All formats
can be read. In format 2, which 2.0.0 writes, a record has the same `scope` and `id` as its item. From format 3 on, all
routes of an account are in one collection, ordered by edge. So one query reads the routes of a page of edges. The route
R of the edge E has the scope `acct_…#/edges/https/E/routes`. The record of this route has the scope
`acct_…#/edges/https/routes` and the id `E/R`. In format 4, records of API keys contain fields that 2.0.0 cannot read:
networks, scopes with ids, tokens with a checksum.

A collection consists of all records with one `scope`. Collections of audit events and, from format 3 on, of SSH
certificates can be divided into shards (several partitions), because one partition takes only 500 changes a second. At
first, a collection has only one shard. When DynamoDB throttles a write, the process stores a permanent marker: a record
without a body in the collection. Then the process puts new items into shards, by id. Readers that find a marker read
all shards. The ids of markers sort after all other ids, so the page with the newest items begins with the markers.
"""

import os
import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

from chalicelib.storage.records import shards

ItemKey = tuple[str, str]  # the primary key of a record: `scope` and `id`

MARKS = "~"  # the first character of the id of every marker: a record that says that its collection has shards
MARK = f"{MARKS}shards"

_MAX_KNOWN = 10_000  # the most collections in `_spread`. A full `_spread` is emptied before a collection is added
_spread: set[str] = set()  # the collections for which this process puts new items into shards

_TOGETHER = re.compile(r"([^#]+#/edges/https)/([^/]+)(/routes)")
_SHARDED = re.compile(r"([^#]+#/ssh_(?:host|user)_certificates)(/[0-9]+)?")
_COLLECTION = re.compile(r"([^#]+#/edges/https)(/routes)")


def build_latest(scope: str, id: str) -> ItemKey:
    """Return the primary key of an item's record in format 3 or 4, in the first shard if the collection has shards."""
    collection, before = find_collection(scope)
    return collection, f"{before}{id}"


def build_new(scope: str, id: str) -> ItemKey:
    """Return the primary key of a new item's record, in the format that RECORD_FORMAT selects."""
    if written_format() < 3:
        return scope, id
    if is_sharded(scope):
        return next_item_key(scope, id)[0], id
    return build_latest(scope, id)


def list_possible(scope: str, id: str) -> list[ItemKey]:
    """Return the primary keys that an item's record can have.

    Read the keys in this order. Otherwise the reads can miss a record that another process moves at the same time.
    """
    item_key, latest_key = (scope, id), build_latest(scope, id)
    item_keys = [latest_key]
    if is_sharded(scope):
        item_keys.append((shards.list_further(scope).scope_of(id), id))
    if latest_key != item_key:
        item_keys.append(item_key)
    if latest_key != item_key or (is_sharded(scope) and written_format() < 3):
        item_keys.append(latest_key)
    return item_keys


def build_migrated(item_key: ItemKey) -> ItemKey:
    """Return the primary key that a record has after its migration to the format of new records.

    A record in a collection that can have shards keeps its primary key.
    """
    scope, id = find_item(*item_key)
    if written_format() < 3:
        return scope, id
    return item_key if is_sharded(scope) else build_latest(scope, id)


def is_sharded(scope: str) -> bool:
    """Return whether a collection can be divided into shards. `scope` is its partition key."""
    return (match := _SHARDED.fullmatch(scope)) is not None and not match[2]


def find_collection(scope: str) -> tuple[str, str]:
    """Return the partition key of the collection that contains the items of `scope`.

    Also return the prefix that the ids of their records have in the collection.
    """
    if match := _TOGETHER.fullmatch(scope):
        return f"{match[1]}{match[3]}", f"{match[2]}/"
    return scope, ""


def find_item(scope: str, id: str) -> tuple[str, str]:
    """Return the `scope` and `id` of the item in a record. The arguments are the record's primary key in any format."""
    if match := _SHARDED.fullmatch(scope):
        return match[1], id
    if "/" in id and (match := _COLLECTION.fullmatch(scope)):
        parent_id, _, item_id = id.partition("/")
        return f"{match[1]}/{parent_id}{match[2]}", item_id
    return scope, id


def written_format() -> int:
    """Return the format of new records: RECORD_FORMAT, or 4 if it is not set."""
    return int(_setting() or 4)


def is_latest_format() -> bool:
    """Return whether new records have format 4. Some fields of API keys and policies can only be stored in it."""
    return written_format() >= 4


def is_format_selected() -> bool:
    """Return whether the operator has set RECORD_FORMAT, the format of new records."""
    return bool(_setting())


def _setting() -> str:
    # before 3.0.0, the setting RECORD_FORMAT had the name RECORDS_EDITION
    return os.environ.get("RECORD_FORMAT") or os.environ.get("RECORDS_EDITION") or ""


class Identified(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


def next_item_key(collection: str, id: str) -> tuple[str, int]:
    """Return the partition key and the shard's number for the record of a new item.

    In a collection without shards, the number is 0.
    """
    if collection not in _spread:
        return collection, 0
    further_shards = shards.list_further(collection)
    return further_shards.scope_of(id), further_shards.number_of(id)


def spread(collection: str) -> None:
    """Make this process put new items of a collection into shards. Store the marker of the collection first."""
    if len(_spread) >= _MAX_KNOWN:
        _spread.clear()  # to limit memory. If DynamoDB throttles a removed collection again, it is added again
    _spread.add(collection)


def merge_pages(pages: Iterable[tuple[list[T], bool]], count: int) -> tuple[list[T], bool]:
    """Merge pages of several shards into one page of at most `count` items. Also return whether more items follow."""
    page_list = list(pages)
    # A shard can have more items after its page. These unread items are older than the last item of this page, but may
    # be newer than items in pages of other shards. So leave out all items that are older than the last item of such a
    # page: the caller gets them with the next page, in the right order.
    reached = max((items[-1].id for items, has_more in page_list if has_more), default="")
    all_items = sorted(
        (item for items, _ in page_list for item in items if item.id >= reached), key=lambda item: item.id, reverse=True
    )
    return all_items[:count], bool(reached) or len(all_items) > count
