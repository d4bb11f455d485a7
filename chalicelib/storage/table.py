"""The one table (DynamoDB): items under a scope and an id, and what binds them, claims and pointers.

A scope is one account's items of one kind, so a list is one Query and a read one GetItem, whatever the size.
Every change is one conditional update or one transaction: what another wrote meanwhile is never overwritten unseen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from chalicelib.storage import aws, bonds, dynamodb, items
from chalicelib.storage import claims as held
from chalicelib.storage.bonds import Write
from chalicelib.storage.claims import Claim
from chalicelib.storage.dynamodb import Condition, ConditionFailed
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Crowded, Dangling, Held, Pointer

_LARGE = 800_000  # characters of items on a page, when DynamoDB broke off at its 1 MB
_TRIES = 5  # at a change that others overtake


def create(*new: Item) -> None:
    """Write items, their claims and pointers, all or nothing.

    Writing the same items again is harmless, so a retry after a lost answer finds its own work and is content.
    Raises Taken, Dangling, Crowded, TooMany, aws.Unavailable.
    """
    writes: list[Write] = [(dynamodb.putting(item.to_record()), None) for item in new]
    for item in new:
        writes += bonds.writes(replace(item, claims=(), points=()), item)
    if len(writes) == 1:
        dynamodb.put(writes[0][0])
    else:
        _transact(writes)


def read(scope: str, id: str) -> Item | None:
    """The item, or None when there is none or it has expired. Raises aws.Unavailable."""
    item = read_parts(scope, id)
    return item if item and item.body else None


def read_parts(scope: str, id: str) -> Item | None:
    """The item, also where only parts of it were ever set and its body is empty. Raises aws.Unavailable."""
    record = dynamodb.get(scope, id)
    item = Item.from_record(record) if record else None
    return item if item and item.is_live else None


def newest(scope: str) -> list[Item]:
    """All items of a scope, newest first, without what is sealed in them. Raises aws.Unavailable."""
    return [Item.from_record(record) for records in _pages(scope, None, None) for record in records]


def page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """At most `count` items of a scope, newest first, older than the id `before`, without what is sealed in them.

    And whether there are more. There are fewer than `count` also where they are large: a page is what DynamoDB reads
    at once, 1 MB, so that Lambda can answer with it. What has expired does not count. Raises aws.Unavailable.
    """
    found: list[Item] = []
    for records in _pages(scope, before, count + 1):
        if len(found) > 1 and len(repr(found)) > _LARGE:
            return found[:-1], True  # the last one begins the next page, which is thus not empty
        found += map(Item.from_record, records)
        if len(found) > count:
            return found[:count], True
    return found, False


def change(scope: str, id: str, fields: Mapping[str, Any]) -> Item | None:
    """Set fields of an item's body, at least one; the item as it is then, or None when there is none.

    Raises aws.Unavailable.
    """
    try:
        return Item.from_record(dynamodb.update(dynamodb.setting(scope, id, _in("body", fields), items.live())))
    except ConditionFailed:
        return None


def rewrite(
    scope: str,
    id: str,
    fields: Mapping[str, Any],
    *,
    parts: Mapping[str, Any] | None = None,
    claims: Callable[[dict[str, Any]], tuple[Claim, ...]] | None = None,
    facts: Mapping[str, Any] | None = None,
    points: Mapping[str, tuple[Pointer, ...]] | None = None,
) -> Item | None:
    """Set fields and parts (None takes one away) of an item and what binds it, all or nothing.

    `claims` tells from the body all that it is to hold from now on, `points` by part all that the part is to point
    at; without them they stay. `facts` are set in every claim it holds. The item as it is then, or None when there
    is none.

    Raises Taken, Dangling, Crowded, TooMany, aws.Unavailable.
    """
    for _ in range(_TRIES):
        before = read(scope, id)
        if before is None:
            return None
        after = replace(
            before,
            claims=claims({**before.body, **fields}) if claims else before.claims,
            points=bonds.repointed(before.points, points or {}),
        )
        attributes = {**_in("body", fields), **_parts(before, parts or {}), **bonds.attributes(after)}
        update = dynamodb.setting(scope, id, attributes, items.unchanged(before))
        told = [(held.changing(claim, id, facts), None) for claim in before.claims if facts]
        if _transact([(update, None), *bonds.writes(before, after), *told]):
            return read(scope, id)  # a transaction tells nothing of what it wrote
    raise aws.Unavailable("TransactionConflict")


def delete(scope: str, id: str) -> bool:
    """Remove an item and release what binds it, all or nothing; False when there is none.

    Raises Held when something points at it, aws.Unavailable.
    """
    live = items.live()
    unbound = " AND ".join(f"attribute_not_exists(#{name})" for name in ("claims", "points", "pointed_by"))
    try:
        dynamodb.delete(dynamodb.deleting(scope, id, Condition(f"{live.text} AND {unbound}", live.values)))
    except ConditionFailed as failed:
        return _delete_bound(Item.from_record(failed.found)) if failed.found else failed.was_retried
    return True


def _delete_bound(item: Item | None) -> bool:
    for _ in range(_TRIES):
        if item is None or not item.body or not item.is_live:
            return False
        if item.pointed_by:
            raise Held(item.pointed_by)
        same = items.unchanged(item)
        unheld = Condition(f"{same.text} AND attribute_not_exists(#pointed_by)", same.values)
        deletion = dynamodb.deleting(item.scope, item.id, unheld)
        if _transact([(deletion, None), *bonds.writes(item, replace(item, claims=(), points=()))]):
            return True
        item = read(item.scope, item.id)
    raise aws.Unavailable("TransactionConflict")


def renew(scope: str, id: str, *, expires: int) -> bool:
    """Set the second at which an item is gone; False when it is gone already. Raises aws.Unavailable."""
    try:
        leased = Condition("#expires > :now", {"now": items.now()})
        dynamodb.update(dynamodb.setting(scope, id, {"expires": expires}, leased))
    except ConditionFailed:
        return False
    return True


def _in(attribute: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{attribute}.{name}": value for name, value in entries.items()}


def _parts(item: Item, parts: Mapping[str, Any]) -> dict[str, Any]:
    if item.parts:
        return _in("parts", parts)
    first = {name: value for name, value in parts.items() if value is not None}
    return {"parts": first} if first else {}


def _transact(writes: Iterable[Write]) -> bool:
    """Do all or nothing; False when the item has changed meanwhile. Raises what else a failed condition means."""
    parts, meanings = zip(*writes, strict=True)
    failed = [meanings[place] for place in dynamodb.transact(parts)]
    if failed and failed[0] is not None:
        raise _meant(failed[0])
    return not failed


def _meant(error: Exception) -> Exception:
    if isinstance(error, Dangling) and read(error.pointer.scope, error.pointer.id):
        return Crowded(error.pointer)
    return error


def _pages(scope: str, before: str | None, count: int | None) -> Iterator[list[dict[str, Any]]]:
    return dynamodb.pages(
        {"scope": scope, "now": items.now(), **({"before": before} if before else {})},
        limit=count,
        KeyConditionExpression="#scope = :scope" + (" AND #id < :before" if before else ""),
        FilterExpression=items.live().text,
        ProjectionExpression="#scope, #id, #body, #parts, #expires",
    )
