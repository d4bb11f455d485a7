"""Reads of the table (DynamoDB). They return items by `scope` and `id`, lists of items, and attributes of unique keys.

The items of one kind of one account have the same partition key `scope`. So a list is one Query and a read is one
GetItem.

An item is malformed if its record has an attribute with a wrong type. It can be found and deleted, but has no body.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

from chalicelib import clock
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition
from chalicelib.storage.records import decoding, item_keys, items, shards, unique_keys
from chalicelib.storage.records.items import Item

_INDEXES = {"by-resource": "indexed", "by-actor": "acted"}  # for each index, the attribute that is its partition key
_KEYS = {
    "last": "#scope = :scope AND #id BETWEEN :first AND :last",
    "before": "#scope = :scope AND #id < :before",
    "scope": "#scope = :scope",
}
_AT_ONCE = 100  # the most writes in one transaction, and the most records in one read
_MAX_MARKS = 2  # the most markers that a collection can have (see `item_keys`)
_OR_MARKS = " OR begins_with(#id, :marks)"
_LISTED = "#scope, #id, #body, #parts, #unseen, #claims, #points, #pointed_by, #expires, #lease, #revision"
_read: ContextVar[dict[tuple[str, str], dict[str, Any] | None]] = ContextVar("read")
_LARGE = 800_000  # the most characters of a page: a longer response of the API could exceed Lambda's limit


def read(scope: str, id: str) -> Item | None:
    """Return an item, or None if it is missing, expired or without a body. Raises MalformedRecord, aws.Unavailable."""
    return items.decode_with_body(_record(scope, id))


def read_any(scope: str, id: str) -> Item | None:
    """Return an item, even without a body, or None if missing or expired. Raises MalformedRecord, aws.Unavailable."""
    item = items.decode_live(_record(scope, id))
    if item and item.malformed:
        raise item.malformed
    return item


def find(scope: str, id: str) -> Item | None:
    """Return an item, even if malformed, or None if missing, expired or without a body. Raises aws.Unavailable."""
    item = items.decode_live(_record(scope, id))
    return item if item and (item.body or item.malformed) else None


def find_stored(scope: str, id: str) -> Item | None:
    """Return an item, even if malformed, expired or without a body, or None if missing. Raises aws.Unavailable."""
    record = _record(scope, id)
    return Item.from_record(record) if record else None


def find_any(scope: str, id: str) -> Item | None:
    """Return an item, even if malformed or without a body, or None if missing or expired. Raises aws.Unavailable."""
    return items.decode_live(_record(scope, id))


def skip_malformed(stored_items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items that are not malformed. Malformed ones are logged."""
    for item in stored_items:
        if item.malformed:
            decoding.report(item.scope, item.id, item.malformed)
        else:
            yield item


def read_records(item_keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the existing records with some primary keys, by key. Reads 100 per call. Raises aws.Unavailable."""
    distinct_keys, cache = list(dict.fromkeys(item_keys)), _read.get({})
    unknown = [item_key for item_key in distinct_keys if item_key not in cache]
    for start in range(0, len(unknown), _AT_ONCE):
        batch = unknown[start : start + _AT_ONCE]
        cache.update(zip(batch, dynamodb.get_each(*batch), strict=True))
    return {item_key: record for item_key in distinct_keys if (record := cache[item_key]) is not None}


@contextmanager
def cache_reads() -> Iterator[None]:
    """Cache records in a `with` block, so that each is read at most once. The block must not write."""
    before = _read.set({})
    try:
        yield
    finally:
        _read.reset(before)


def look_up(kind: str, value: str) -> dict[str, Any] | None:
    """Return the attributes in a unique key's record. Return None if no item holds the key. Raises aws.Unavailable."""
    record = dynamodb.get(f"{kind}#{value}", unique_keys.ID)
    return record.get("body", {}) if record else None


def list_newest(scope: str) -> list[Item]:
    """Return all items of a partition, newest first, without their encrypted secrets. Malformed items are left out.

    Raises aws.Unavailable.
    """
    return [item for records in _pages(_select_older(scope, None), None) for item in _items(records)]


def list_all(scope: str) -> list[Item]:
    """Return all items of a partition, newest first. Raises MalformedRecord, aws.Unavailable."""
    all_items = list(read_all(scope))
    for item in all_items:
        if item.malformed:
            raise item.malformed
    return [item for item in all_items if item.body and item.is_live]


def read_page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items older than the id `before`, newest first. Also return whether there are more.

    Encrypted secrets and expired items are left out. A page of large items is shorter: DynamoDB reads at most 1 MB at
    once, and a larger response would exceed Lambda's limit. Raises aws.Unavailable.
    """
    if not item_keys.is_sharded(scope):
        return _page(_select_older(scope, before), count)
    page_items, has_more, marks = read_marked_page(scope, before=before, count=count)
    if item_keys.MARK not in marks and not (before and is_spread(scope)):
        return page_items, has_more
    further_pages = (_page(_select_older(shard, before), count) for shard in shards.list_further(scope).scopes)
    return _shorten(*item_keys.merge_pages([(page_items, has_more), *further_pages], count))


def read_page_of(scope: str, ids: Iterable[str], *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return a page of the items with the ids `ids`, and whether there are more. One call reads a hundred items."""
    selected_ids = [id for id in ids if before is None or id < before]
    live = map(items.decode_live, read_records((scope, id) for id in selected_ids).values())
    sorted_items = sorted(skip_malformed(item for item in live if item), key=lambda item: item.id, reverse=True)
    existing = [item for item in sorted_items if item.body]
    return existing[:count], len(existing) > count


def read_marked_page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool, frozenset[str]]:
    """Return a page of a partition, whether there are more items, and ids of markers, which only the first page has."""
    if before:
        return (*_page(_select_older(scope, before), count), frozenset())
    stored_items, has_more = _page({**_select_older(scope, None), "marks": item_keys.MARKS}, count + _MAX_MARKS)
    marks = frozenset(item.id for item in stored_items if item.id.startswith(item_keys.MARKS))
    page_items = [item for item in stored_items if item.id not in marks]
    return page_items[:count], has_more or len(page_items) > count, marks


def is_spread(collection: str) -> bool:
    """Return whether a collection has shards. Makes one read. Raises aws.Unavailable."""
    return dynamodb.get(collection, item_keys.MARK) is not None


def read_indexed_page(index: str, value: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return a page of the items with the key `value` in an index, and whether there are more. An index can lag 1 s."""
    page_items: list[Item] = []
    for records in queries.read_pages(
        {"value": value, "now": clock.seconds(), **({"before": before} if before else {})},
        limit=count + 1,
        index=index,
        KeyConditionExpression=f"#{_INDEXES[index]} = :value" + (" AND #id < :before" if before else ""),
        FilterExpression=items.require_live().text,
    ):
        page_items += _items(records)
        if len(page_items) > count:
            return page_items[:count], True
    return page_items, False


def select_indexed(index: str, value: str, *, after: str, only: Condition) -> Iterator[Item]:
    """Yield the items that have the partition key `value` in an index and meet a condition, newest first.

    Only items with ids above `after` are read. An index can lag by a second. Raises aws.Unavailable.
    """
    for records in queries.read_pages(
        {"value": value, "after": after, **only.values},
        limit=None,
        index=index,
        KeyConditionExpression=f"#{_INDEXES[index]} = :value AND #id > :after",
        FilterExpression=only.text,
    ):
        yield from _items(records)


def find_each(scope: str, ids: Iterable[str]) -> dict[str, Item]:
    """Return the items with the ids `ids`, by id. Malformed items are included. One call reads a hundred items."""
    live_items = (items.decode_live(record) for record in read_records(_list_possible(scope, ids)).values())
    return {item.id: item for item in live_items if item and (item.body or item.malformed)}


def read_all(scope: str) -> Iterator[Item]:
    """Yield all items of a partition, also malformed items and items with only modules. Raises aws.Unavailable."""
    # The first selection has records of format 2, the second has records of later formats. In the opposite order, both
    # reads could miss a record that a migration moves to the later format at the same time.
    selections = [{"scope": scope}, _select_older(scope, None)]
    for selected in selections if selections[0] != selections[1] else selections[:1]:
        for page in queries.read_pages(selected, limit=None, KeyConditionExpression=_key(selected)):
            yield from map(Item.from_record, page)


def read_children(scopes: Sequence[str]) -> Iterator[Item]:
    """Yield the items of several parents, for example the routes of several edges, in descending order.

    `scopes` are the partition keys of these items. The result also contains items of other parents, if their partition
    keys sort between the lowest and the highest of `scopes`. Malformed items are included, encrypted secrets are left
    out. Raises aws.Unavailable.
    """
    collection, first = item_keys.find_collection(min(scopes))
    last = item_keys.find_collection(max(scopes))[1]
    for records in _pages({"scope": collection, "first": first, "last": f"{last}~"}, None):
        yield from map(Item.from_record, records)


def read_format_2(scope: str) -> list[Item]:
    """Return the items with a `scope` that are stored in format 2, newest first. Their secrets are left out.

    Raises aws.Unavailable.
    """
    return [Item.from_record(record) for records in _pages({"scope": scope}, None) for record in records]


def read_between(scope: str, first: str, last: str) -> Iterator[Item]:
    """Yield the items of a partition with ids from `first` to `last`, in ascending order. Raises aws.Unavailable."""
    for records in queries.read_pages(
        {"scope": scope, "first": first, "last": last, "now": clock.seconds()},
        limit=None,
        first="lowest",
        KeyConditionExpression="#scope = :scope AND #id BETWEEN :first AND :last",
        FilterExpression=items.require_live().text,
    ):
        yield from _items(records)


def _record(scope: str, id: str) -> dict[str, Any] | None:
    """Return the record of an item, or None. Tries the possible primary keys one by one. Raises aws.Unavailable."""
    return next(filter(None, (_get(*item_key) for item_key in item_keys.list_possible(scope, id))), None)


def _get(scope: str, id: str) -> dict[str, Any] | None:
    cache = _read.get({})
    if (scope, id) not in cache:
        cache[scope, id] = dynamodb.get(scope, id)
    return cache[scope, id]


def _list_possible(scope: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    return (item_key for id in ids for item_key in item_keys.list_possible(scope, id))


def _page(selected: Mapping[str, str], count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items that a query selects, and whether there are more."""
    page_items: list[Item] = []
    for records in _pages(selected, count + 1):
        if len(page_items) > 1 and len(repr(page_items)) > _LARGE:
            return page_items[:-1], True  # the omitted item begins the next page, which could otherwise be empty
        page_items += _items(records)
        if len(page_items) > count:
            return page_items[:count], True
    return page_items, False


def _items(records: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    """Yield the items of some records. A malformed item is logged and left out."""
    return skip_malformed(map(Item.from_record, records))


def _shorten(page_items: list[Item], has_more: bool) -> tuple[list[Item], bool]:
    """Shorten a page to _LARGE characters, but not below one item. The page was merged from several shards."""
    sizes = accumulate(len(repr(item)) for item in page_items)
    count = sum(size <= _LARGE for size in sizes) or 1
    return page_items[:count], has_more or count < len(page_items)


def _select_older(scope: str, before: str | None) -> dict[str, str]:
    """Return the values of a query for a partition's items. If `before` is set, it reads only items with lower ids."""
    collection, begin = item_keys.find_collection(scope)
    if begin:
        # BETWEEN includes its bounds, so replace the last character of `before` by the preceding character.
        below = f"{before[:-1]}{chr(ord(before[-1]) - 1)}" if before else ""
        return {"scope": collection, "first": begin, "last": f"{begin}{below}~"}
    return {"scope": scope, **({"before": before} if before else {})}


def _pages(selected: Mapping[str, str], count: int | None) -> Iterator[list[dict[str, Any]]]:
    return queries.read_pages(
        {**selected, "now": clock.seconds()},
        limit=count,
        KeyConditionExpression=_key(selected),
        FilterExpression=f"{items.require_live().text}{_OR_MARKS if 'marks' in selected else ''}",
        ProjectionExpression=_LISTED,
    )


def _key(selected: Mapping[str, str]) -> str:
    """Return the key condition of a query. Its form depends on which values `selected` has, for example `before`."""
    return next(condition for value, condition in _KEYS.items() if value in selected)
