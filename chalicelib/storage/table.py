"""The one table (DynamoDB), read: items under a scope and an id, and the unique keys that lead to them.

A scope is one account's items of one kind, so a list is one Query and a read one GetItem, whatever the size. What is
written here by itself is told nobody: leases, and what a unique key repeats.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from chalicelib import clock
from chalicelib.storage import change_log, decoding, dynamodb, items, places, queries, unique_keys
from chalicelib.storage.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_INDEXES = {"by-resource": "indexed", "by-actor": "acted"}  # the attribute of each index
_KEYS = {
    "last": "#scope = :scope AND #id BETWEEN :first AND :last",
    "before": "#scope = :scope AND #id < :before",
    "scope": "#scope = :scope",
}
_AT_ONCE = 100  # writes in one transaction, and records in one read
_MAX_MARKS = 2  # of a collection
_OR_MARKS = " OR begins_with(#id, :marks)"
_LARGE = 800_000  # characters of items on a page, when DynamoDB broke off at its 1 MB


def read(scope: str, id: str) -> Item | None:
    """Return the item, or None when there is none or it has expired. Raises MalformedRecord, aws.Unavailable."""
    return items.of_record(_record(scope, id))


def read_any(scope: str, id: str) -> Item | None:
    """Return the item, also where only modules of it were ever set and its body is empty.

    Raises MalformedRecord, aws.Unavailable.
    """
    item = items.live_item(_record(scope, id))
    if item and item.malformed:
        raise item.malformed
    return item


def find(scope: str, id: str) -> Item | None:
    """Return the item as `read` does, also if its record is malformed. Raises aws.Unavailable."""
    item = items.live_item(_record(scope, id))
    return item if item and (item.body or item.malformed) else None


def find_any(scope: str, id: str) -> Item | None:
    """Return the item as `read_any` does, also if its record is malformed. Raises aws.Unavailable."""
    return items.live_item(_record(scope, id))


def well_formed(found: Iterable[Item]) -> Iterator[Item]:
    """Yield the items whose records are well-formed. The others are logged."""
    for item in found:
        if item.malformed:
            decoding.report(item.scope, item.id, item.malformed)
        else:
            yield item


def records(places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records at places of scope and id, those that are there. A hundred in a call.

    Raises aws.Unavailable.
    """
    wanted = list(dict.fromkeys(places))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        read = zip(some, dynamodb.get_each(*some), strict=True)
        found |= {place: record for place, record in read if record is not None}
    return found


def look_up(kind: str, value: str) -> dict[str, Any] | None:
    """Return the attributes of the unique key with a value, or None when nothing holds it. Raises aws.Unavailable."""
    record = dynamodb.get(f"{kind}#{value}", unique_keys.ID)
    return record.get("body", {}) if record else None


def newest(scope: str) -> list[Item]:
    """Return all items of a scope, newest first, without what is sealed in them. Malformed ones are left out.

    Raises aws.Unavailable.
    """
    return [item for records in _pages(_older(scope, None), None) for item in _items(records)]


def newest_of_all(scope: str) -> list[Item]:
    """Return the items as `newest` does. Raises MalformedRecord if one is malformed, aws.Unavailable."""
    found = list(every(scope))
    for item in found:
        if item.malformed:
            raise item.malformed
    return [item for item in found if item.body and item.is_live]


def page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items of a scope, newest first, older than the id `before`; and whether there are more.

    What is sealed in them is left out. There are fewer than `count` also where they are large: a page is what DynamoDB
    reads at once, 1 MB, so that Lambda can answer with it. What has expired does not count. Raises aws.Unavailable.
    """
    if not places.is_sharded(scope):
        return _page(_older(scope, before), count)
    found, has_more, marks = marked_page(scope, before=before, count=count)
    if places.MARK not in marks and not (before and is_spread(scope)):
        return found, has_more
    others = (_page(_older(shard, before), count) for shard in places.other_shards(scope))
    return _bounded(*places.merged([(found, has_more), *others], count))


def marked_page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool, frozenset[str]]:
    """Return a page of one partition as `page` does, and its marks, without `before` alone. Raises aws.Unavailable."""
    if before:
        return (*_page(_older(scope, before), count), frozenset())
    found, has_more = _page({**_older(scope, None), "marks": places.MARKS}, count + _MAX_MARKS)
    marks = frozenset(item.id for item in found if item.id.startswith(places.MARKS))
    others = [item for item in found if item.id not in marks]
    return others[:count], has_more or len(others) > count, marks


def is_spread(collection: str) -> bool:
    """Tell whether a collection has shards. One read. Raises aws.Unavailable."""
    return dynamodb.get(collection, places.MARK) is not None


def spread(collection: str) -> None:
    """Mark a collection as busy, and spread what this process adds to it. Raises aws.Unavailable."""
    dynamodb.do(Write.put({"scope": collection, "id": places.MARK, "revision": 1}))
    places.spread(collection)


def indexed(index: str, value: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items of an index under a value, as `page` does; an index may lag by a second."""
    found: list[Item] = []
    for records in queries.pages(
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
    """Yield all items of a scope, also malformed ones and those of which only modules were ever set.

    Raises aws.Unavailable.
    """
    selections = [{"scope": scope}, _older(scope, None)]  # in this order what is moved meanwhile is found
    for selected in selections if selections[0] != selections[1] else selections[:1]:
        for page in queries.pages(selected, limit=None, KeyConditionExpression=_key(selected)):
            yield from map(Item.from_record, page)


def beneath(scopes: Sequence[str]) -> Iterator[Item]:
    """Yield the items of some scopes that lie in one collection, the last scope and the newest first.

    What lies between them is read too, and malformed items are included. What is sealed is left out. Raises
    aws.Unavailable.
    """
    collection, first = places.collected(min(scopes))
    last = places.collected(max(scopes))[1]
    for records in _pages({"scope": collection, "first": first, "last": f"{last}~"}, None):
        yield from map(Item.from_record, records)


def of_second_edition(scope: str) -> list[Item]:
    """Return the items of a scope whose records lie where the second edition put them, newest first.

    What is sealed is left out. Raises aws.Unavailable.
    """
    return [Item.from_record(record) for records in _pages({"scope": scope}, None) for record in records]


def between(scope: str, first: str, last: str) -> Iterator[Item]:
    """Yield the items of a scope with ids from the first to the last, in that order. Raises aws.Unavailable."""
    for records in queries.pages(
        {"scope": scope, "first": first, "last": last, "now": clock.seconds()},
        limit=None,
        first="lowest",
        KeyConditionExpression="#scope = :scope AND #id BETWEEN :first AND :last",
        FilterExpression=items.live().text,
    ):
        yield from _items(records)


def drop(item: Item) -> None:
    """Remove an item of which only modules were ever set. Raises ConditionFailed, aws.Unavailable."""
    dynamodb.do(Write.delete(*item.place, Condition("attribute_not_exists(#body)")))


def set_attributes(kind: str, value: str, attributes: Mapping[str, Any]) -> bool:
    """Set attributes of a unique key that is held; False when nothing holds it. Raises aws.Unavailable."""
    try:
        dynamodb.do(_attributes(UniqueKey(kind, value), attributes))
    except ConditionFailed:
        return False
    return True


def set_once(key: UniqueKey, name: str, value: Any) -> None:
    """Set an attribute of a unique key that is held and has none of that name. Raises aws.Unavailable."""
    lacking = Condition(f"attribute_exists(#id) AND attribute_not_exists(#body.#{name})")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(key.scope, unique_keys.ID, lacking, sets={f"body.{name}": value}))


def set_all(changes: Sequence[tuple[UniqueKey, Mapping[str, Any]]], *, checks: Sequence[Write] = ()) -> bool:
    """Set attributes of unique keys, many in one transaction with the checks; those that are gone are passed over.

    False when a check fails: then some are set, and others are not. Raises aws.Unavailable.
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
    """Write what differs between two states of an item; return it, or None where it has changed meanwhile.

    Raises aws.Unavailable.
    """
    try:
        return Item.from_record(dynamodb.do(items.rewrite(before, after)))
    except ConditionFailed:
        return None


def renew(scope: str, id: str, *, lease: int) -> bool:
    """Set the second at which an item's lease ends; False when it has ended already. Raises aws.Unavailable."""
    try:
        dynamodb.do(_renewed(scope, id, lease))
    except ConditionFailed:
        return False
    return True


def renew_all(places: Sequence[tuple[str, str]], *, lease: int) -> list[tuple[str, str]]:
    """Set the second at which the leases of items end, by scope and id; return those that have ended already.

    A hundred in one request, each by itself. Raises aws.Unavailable.
    """
    lost: list[tuple[str, str]] = []
    for start in range(0, len(places), _AT_ONCE):
        left = list(places[start : start + _AT_ONCE])
        while left:
            try:
                dynamodb.transact([_renewed(*place, lease) for place in left])
                break
            except TransactionFailed as failed:
                lost += [left[place] for place in failed.places]
                left = [it for place, it in enumerate(left) if place not in failed.places]
    return lost


def put(scope: str, id: str, body: Mapping[str, Any], *, lease: int) -> None:
    """Write an item with a lease, whatever was there: for one that nobody else writes. Raises aws.Unavailable."""
    sets = {"body": dict(body), "schema": dynamodb.SCHEMA, **items.leased(lease)}
    write = Write.update(scope, id, Condition(""), sets=sets, adds={"revision": 1})
    dynamodb.transact([write, *change_log.entries([write])])


def touch(scope: str, id: str) -> None:
    """Raise the revision of an item, if there is one, for those who read it again when that has changed.

    Raises aws.Unavailable.
    """
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), adds={"revision": 1}))


def _attributes(key: UniqueKey, attributes: Mapping[str, Any]) -> Write:
    sets = {f"body.{name}": value for name, value in attributes.items()}
    return Write.update(key.scope, unique_keys.ID, Condition("attribute_exists(#id)"), sets=sets)


def _renewed(scope: str, id: str, lease: int) -> Write:
    return Write.update(scope, id, items.live(), sets=items.leased(lease))


def _record(scope: str, id: str) -> dict[str, Any] | None:
    """Return the record of an item, wherever it lies. Raises aws.Unavailable."""
    return next(filter(None, (dynamodb.get(*place) for place in places.possible(scope, id))), None)


def _page(selected: Mapping[str, str], count: int) -> tuple[list[Item], bool]:
    """Return a page of what is selected in one partition, as `page` does."""
    found: list[Item] = []
    for records in _pages(selected, count + 1):
        if len(found) > 1 and len(repr(found)) > _LARGE:
            return found[:-1], True  # the last one begins the next page, which is thus not empty
        found += _items(records)
        if len(found) > count:
            return found[:count], True
    return found, False


def _items(records: Iterable[Mapping[str, Any]]) -> Iterator[Item]:
    """Return the items of records, without malformed ones, which are logged."""
    return well_formed(map(Item.from_record, records))


def _bounded(found: list[Item], has_more: bool) -> tuple[list[Item], bool]:
    """Return a page of several partitions, and no more of it than DynamoDB reads of one at once."""
    sizes = accumulate(len(repr(item)) for item in found)
    kept = sum(size <= _LARGE for size in sizes) or 1
    return found[:kept], has_more or kept < len(found)


def _older(scope: str, before: str | None) -> dict[str, str]:
    """Return the values that select a scope's items older than the id `before`, None for all of them."""
    collection, begin = places.collected(scope)
    if begin:
        below = f"{before[:-1]}{chr(ord(before[-1]) - 1)}" if before else ""  # of as many characters
        return {"scope": collection, "first": begin, "last": f"{begin}{below}~"}
    return {"scope": scope, **({"before": before} if before else {})}


def _pages(selected: Mapping[str, str], count: int | None) -> Iterator[list[dict[str, Any]]]:
    return queries.pages(
        {**selected, "now": clock.seconds()},
        limit=count,
        KeyConditionExpression=_key(selected),
        FilterExpression=f"{items.live().text}{_OR_MARKS if 'marks' in selected else ''}",
        ProjectionExpression="#scope, #id, #body, #parts, #unseen, #claims, #pointed_by, #expires, #lease, #revision",
    )


def _key(selected: Mapping[str, str]) -> str:
    """Return the condition of a query that selects so."""
    return next(condition for value, condition in _KEYS.items() if value in selected)
