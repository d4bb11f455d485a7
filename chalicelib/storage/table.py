"""Reads of items and unique keys in DynamoDB, and writes without an audit event.

A scope contains one account's items of one kind, so a list is one Query and a read one GetItem at any size. The writes
here concern leases and attributes that a unique key repeats.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from chalicelib import clock
from chalicelib.storage import change_log, decoding, dynamodb, items, places, shards, unique_keys
from chalicelib.storage.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_INDEXES = {"by-resource": "indexed", "by-actor": "acted"}  # the attribute of each index
_KEYS = {
    "last": "#scope = :scope AND #id BETWEEN :first AND :last",
    "before": "#scope = :scope AND #id < :before",
    "scope": "#scope = :scope",
}
_AT_ONCE = 100  # writes per transaction, and records per read
_MAX_MARKS = 2  # per collection
_OR_MARKS = " OR begins_with(#id, :marks)"
_LARGE = 800_000  # characters of a page; a response of DynamoDB ends at 1 MB


def read(scope: str, id: str) -> Item | None:
    """Return a live item, or None. Raises MalformedRecord, aws.Unavailable."""
    return of_record(_record(scope, id))


def read_any(scope: str, id: str) -> Item | None:
    """Return a live item, even if it has only modules and an empty body.

    Raises MalformedRecord, aws.Unavailable.
    """
    item = _live_item(_record(scope, id))
    if item and item.malformed:
        raise item.malformed
    return item


def find(scope: str, id: str) -> Item | None:
    """Return an item like `read`, but also a malformed one. Raises aws.Unavailable."""
    item = _live_item(_record(scope, id))
    return item if item and (item.body or item.malformed) else None


def find_any(scope: str, id: str) -> Item | None:
    """Return an item like `read_any`, but also a malformed one. Raises aws.Unavailable."""
    return _live_item(_record(scope, id))


def of_record(record: Mapping[str, Any] | None) -> Item | None:
    """Return the live item of a record, like `read`. Raises MalformedRecord."""
    item = _live_item(record)
    if item and item.malformed:
        raise item.malformed
    return item if item and item.body else None


def well_formed(found: Iterable[Item]) -> Iterator[Item]:
    """Yield the items with valid records. The others are logged."""
    for item in found:
        if item.malformed:
            decoding.report(item.scope, item.id, item.malformed)
        else:
            yield item


def records(places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the existing records with the given keys, 100 per call. Raises aws.Unavailable."""
    wanted = list(dict.fromkeys(places))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        read = zip(some, dynamodb.get_each(*some), strict=True)
        found |= {place: record for place, record in read if record is not None}
    return found


def look_up(kind: str, value: str) -> dict[str, Any] | None:
    """Return the attributes of a unique key, or None if it is free. Raises aws.Unavailable."""
    record = dynamodb.get(f"{kind}#{value}", unique_keys.ID)
    return record.get("body", {}) if record else None


def newest(scope: str) -> list[Item]:
    """Return all items of a scope, newest first, without sealed values and malformed items.

    Raises aws.Unavailable.
    """
    return [item for records in _pages(_older(scope, None), None) for item in _items(records)]


def newest_of_all(scope: str) -> list[Item]:
    """Return items like `newest`. Raises MalformedRecord for a malformed one, aws.Unavailable."""
    found = list(every(scope))
    for item in found:
        if item.malformed:
            raise item.malformed
    return [item for item in found if item.body and item.is_live]


def page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items of a scope, newest first, and whether there are more.

    All are older than the id `before`. Sealed values and expired items are left out. A page has at most
    the size that DynamoDB reads at once (1 MB), so that Lambda can answer with it: with large items it has fewer than
    `count`. Raises aws.Unavailable.
    """
    if not places.is_sharded(scope):
        return _page(_older(scope, before), count)
    found, has_more, marks = marked_page(scope, before=before, count=count)
    if shards.MARK not in marks and not (before and has_shards(scope)):
        return found, has_more
    others = (_page(_older(shard, before), count) for shard in shards.others(scope))
    return _bounded(*shards.merge_pages([(found, has_more), *others], count))


def marked_page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool, frozenset[str]]:
    """Return a page of one partition, and the collection's marks if `before` is None. Raises aws.Unavailable."""
    if before:
        return (*_page(_older(scope, before), count), frozenset())
    found, has_more = _page({**_older(scope, None), "marks": shards.MARKS}, count + _MAX_MARKS)
    marks = frozenset(item.id for item in found if item.id.startswith(shards.MARKS))
    others = [item for item in found if item.id not in marks]
    return others[:count], has_more or len(others) > count, marks


def has_shards(collection: str) -> bool:
    """Return whether a collection is marked as sharded. One read. Raises aws.Unavailable."""
    return dynamodb.get(collection, shards.MARK) is not None


def add_shards(collection: str) -> None:
    """Mark a collection as sharded, and write new items of this process to its shards. Raises aws.Unavailable."""
    dynamodb.do(Write.put({"scope": collection, "id": shards.MARK, "revision": 1}))
    shards.use(collection)


def indexed(index: str, value: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return a page of an index, like `page`. An index can lag by a second. Raises aws.Unavailable."""
    found: list[Item] = []
    for records in dynamodb.pages(
        {"value": value, "now": clock.seconds(), **({"before": before} if before else {})},
        limit=count + 1,
        index=index,
        KeyConditionExpression=f"#{_INDEXES[index]} = :value" + (" AND #id < :before" if before else ""),
        FilterExpression=items.live().text,
    ):
        found += _items(records)
        if len(found) > count:
            return found[:count], True
    return found, False


def every(scope: str) -> Iterator[Item]:
    """Yield all items of a scope, also malformed ones and ones with only modules.

    Raises aws.Unavailable.
    """
    selections = [{"scope": scope}, _older(scope, None)]  # this order also finds items that are moved meanwhile
    for selected in selections if selections[0] != selections[1] else selections[:1]:
        for page in dynamodb.pages(selected, limit=None, KeyConditionExpression=_key(selected)):
            yield from map(Item.from_record, page)


def beneath(scopes: Sequence[str]) -> Iterator[Item]:
    """Yield the items of scopes in one collection, last scope and newest item first.

    Items of all scopes between them and malformed items are included, sealed values are left out. Raises
    aws.Unavailable.
    """
    collection, first = places.collected(min(scopes))
    last = places.collected(max(scopes))[1]
    for records in _pages({"scope": collection, "first": first, "last": f"{last}~"}, None):
        yield from map(Item.from_record, records)


def of_second_edition(scope: str) -> list[Item]:
    """Return a scope's items with keys of the second format, newest first.

    Sealed values are left out. Raises aws.Unavailable.
    """
    return [Item.from_record(record) for records in _pages({"scope": scope}, None) for record in records]


def between(scope: str, first: str, last: str) -> Iterator[Item]:
    """Yield the items of a scope with ids between two, in ascending order. Raises aws.Unavailable."""
    for records in dynamodb.pages(
        {"scope": scope, "first": first, "last": last, "now": clock.seconds()},
        limit=None,
        first="lowest",
        KeyConditionExpression="#scope = :scope AND #id BETWEEN :first AND :last",
        FilterExpression=items.live().text,
    ):
        yield from _items(records)


def drop(item: Item) -> None:
    """Delete an item with only modules. Raises ConditionFailed, aws.Unavailable."""
    dynamodb.do(Write.delete(*item.place, Condition("attribute_not_exists(#body)")))


def set_attributes(kind: str, value: str, attributes: Mapping[str, Any]) -> bool:
    """Set attributes of a unique key. Return False if it is free. Raises aws.Unavailable."""
    try:
        dynamodb.do(_attributes(UniqueKey(kind, value), attributes))
    except ConditionFailed:
        return False
    return True


def set_once(key: UniqueKey, name: str, value: Any) -> None:
    """Set an unset attribute of a held unique key. Raises aws.Unavailable."""
    unset = Condition(f"attribute_exists(#id) AND attribute_not_exists(#body.#{name})")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(key.scope, unique_keys.ID, unset, sets={f"body.{name}": value}))


def set_all(changes: Sequence[tuple[UniqueKey, Mapping[str, Any]]], *, checks: Sequence[Write] = ()) -> bool:
    """Set attributes of many unique keys, skipping free ones. Each transaction includes the checks.

    Return False if a check fails, possibly after some were set. Raises aws.Unavailable.
    """
    count = _AT_ONCE - len(checks)
    for start in range(0, len(changes), count):
        left = [_attributes(key, sets) for key, sets in changes[start : start + count]]
        while left:
            try:
                dynamodb.transact([*checks, *left])
                break
            except TransactionFailed as failed:
                if failed.places[0] < len(checks):
                    return False
                left = [write for place, write in enumerate(left, len(checks)) if place not in failed.places]
    return True


def exchange(before: Item, after: Item) -> Item | None:
    """Change an item and return it, or return None if it has changed meanwhile. Raises aws.Unavailable."""
    try:
        return Item.from_record(dynamodb.do(items.rewrite(before, after)))
    except ConditionFailed:
        return None


def renew(scope: str, id: str, *, lease: int) -> bool:
    """Set the Unix second at which an item's lease ends. Return False if it has ended. Raises aws.Unavailable."""
    try:
        dynamodb.do(_renewal(scope, id, lease))
    except ConditionFailed:
        return False
    return True


def renew_all(places: Sequence[tuple[str, str]], *, lease: int) -> list[tuple[str, str]]:
    """Set the Unix second at which leases end. Return the keys of leases that have ended already.

    One transaction renews 100. Raises aws.Unavailable.
    """
    lost: list[tuple[str, str]] = []
    for start in range(0, len(places), _AT_ONCE):
        left = list(places[start : start + _AT_ONCE])
        while left:
            try:
                dynamodb.transact([_renewal(*place, lease) for place in left])
                break
            except TransactionFailed as failed:
                lost += [left[place] for place in failed.places]
                left = [it for place, it in enumerate(left) if place not in failed.places]
    return lost


def put(scope: str, id: str, body: Mapping[str, Any], *, lease: int) -> None:
    """Write an item with a lease, unconditionally. It must have only one writer. Raises aws.Unavailable."""
    sets = {"body": dict(body), "schema": dynamodb.SCHEMA, **items.leased(lease)}
    write = Write.update(scope, id, Condition(""), sets=sets, adds={"revision": 1})
    dynamodb.transact([write, *change_log.entries([write])])


def touch(scope: str, id: str) -> None:
    """Increment an existing item's revision, so that its readers read it again. Raises aws.Unavailable."""
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), adds={"revision": 1}))


def _attributes(key: UniqueKey, attributes: Mapping[str, Any]) -> Write:
    sets = {f"body.{name}": value for name, value in attributes.items()}
    return Write.update(key.scope, unique_keys.ID, Condition("attribute_exists(#id)"), sets=sets)


def _renewal(scope: str, id: str, lease: int) -> Write:
    return Write.update(scope, id, items.live(), sets=items.leased(lease))


def _record(scope: str, id: str) -> dict[str, Any] | None:
    """Return the record of an item with any of its possible keys. Raises aws.Unavailable."""
    return next(filter(None, (dynamodb.get(*place) for place in places.possible(scope, id))), None)


def _page(selected: Mapping[str, str], count: int) -> tuple[list[Item], bool]:
    """Return a page of a selection in one partition, like `page`."""
    found: list[Item] = []
    for records in _pages(selected, count + 1):
        if len(found) > 1 and len(repr(found)) > _LARGE:
            return found[:-1], True  # the last one begins the next page, so that it is not empty
        found += _items(records)
        if len(found) > count:
            return found[:count], True
    return found, False


def _items(records: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    """Yield the items of records. Malformed ones are logged instead."""
    return well_formed(map(Item.from_record, records))


def _live_item(record: Mapping[str, Any] | None) -> Item | None:
    item = Item.from_record(record) if record else None
    return item if item and item.is_live else None


def _bounded(found: list[Item], has_more: bool) -> tuple[list[Item], bool]:
    """Limit a page of several partitions to the size that DynamoDB reads at once."""
    sizes = accumulate(len(repr(item)) for item in found)
    count = sum(size <= _LARGE for size in sizes) or 1
    return found[:count], has_more or count < len(found)


def _older(scope: str, before: str | None) -> dict[str, str]:
    """Return the query values for a scope's items older than the id `before`, or for all items."""
    collection, begin = places.collected(scope)
    if begin:
        below = (
            f"{before[:-1]}{chr(ord(before[-1]) - 1)}" if before else ""
        )  # the id just before it, of the same length
        return {"scope": collection, "first": begin, "last": f"{begin}{below}~"}
    return {"scope": scope, **({"before": before} if before else {})}


def _pages(selected: Mapping[str, str], count: int | None) -> Iterator[list[dict[str, Any]]]:
    return dynamodb.pages(
        {**selected, "now": clock.seconds()},
        limit=count,
        KeyConditionExpression=_key(selected),
        FilterExpression=f"{items.live().text}{_OR_MARKS if 'marks' in selected else ''}",
        ProjectionExpression="#scope, #id, #body, #parts, #unseen, #claims, #pointed_by, #expires, #lease, #revision",
    )


def _key(selected: Mapping[str, str]) -> str:
    """Return the key condition for query values."""
    return next(condition for value, condition in _KEYS.items() if value in selected)
