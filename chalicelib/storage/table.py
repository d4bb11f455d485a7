"""The one table (DynamoDB): items under a scope and an id, and the unique keys and references between them.

A scope is one account's items of one kind, so a list is one Query and a read one GetItem, whatever the size. Every
change is one conditional update or one transaction, and raises the item's revision: what another wrote meanwhile is
never overwritten unseen.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chalicelib.storage import aws, dynamodb, items, relations, unique_keys
from chalicelib.storage.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.references import InUse, MissingTarget, TooManyReferrers
from chalicelib.storage.relations import Meaning
from chalicelib.storage.unique_keys import UniqueKey

_LARGE = 800_000  # characters of items on a page, when DynamoDB broke off at its 1 MB
_TRIES = 12  # at a change that others overtake
_PAUSE = 0.02  # seconds before the second try, at most; each further one may wait as much longer


def create(*new: Item, beside: Sequence[tuple[Write, Meaning]] = ()) -> None:
    """Write items with their unique keys and references and what else belongs to the change, all or nothing.

    Writing the same items again is harmless, so a retry after a lost answer finds its own work and is content.
    Raises Taken, MissingTarget, TooManyReferrers, TransactionTooLarge, what a write beside them means, aws.Unavailable.
    """
    writes: list[tuple[Write, Meaning]] = [(creating(item), None) for item in new]
    writes += beside
    for item in new:
        if item.unique_keys or item.references:
            writes += relations.writes(replace(item, unique_keys=(), references=()), item)
    if len(writes) == 1:
        dynamodb.put(writes[0][0])
    else:
        _transact(writes)


def creating(item: Item) -> Write:
    """Return the write of a new item without relations, to be done beside another change."""
    return dynamodb.putting(item.to_record())


def read(scope: str, id: str) -> Item | None:
    """Return the item, or None when there is none or it has expired. Raises aws.Unavailable."""
    item = read_any(scope, id)
    return item if item and item.body else None


def read_any(scope: str, id: str) -> Item | None:
    """Return the item, also where only modules of it were ever set and its body is empty. Raises aws.Unavailable."""
    record = dynamodb.get(scope, id)
    item = Item.from_record(record) if record else None
    return item if item and item.is_live else None


def look_up(kind: str, value: str) -> dict[str, Any] | None:
    """Return the attributes of the unique key with a value, or None when nothing holds it. Raises aws.Unavailable."""
    record = dynamodb.get(UniqueKey(kind, value).scope, unique_keys.ID)
    return record["body"] if record else None


def newest(scope: str) -> list[Item]:
    """Return all items of a scope, newest first, without what is sealed in them. Raises aws.Unavailable."""
    return [Item.from_record(record) for records in _pages(scope, None, None) for record in records]


def page(scope: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items of a scope, newest first, older than the id `before`; and whether there are more.

    What is sealed in them is left out. There are fewer than `count` also where they are large: a page is what DynamoDB
    reads at once, 1 MB, so that Lambda can answer with it. What has expired does not count. Raises aws.Unavailable.
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
    """Set fields of an item's body, at least one; return the item as it is then, or None when there is none.

    For fields that have no part in its unique keys and references. Raises aws.Unavailable.
    """
    if items.parent(scope):  # whose revision is raised with it
        return rewrite(scope, id, lambda item: replace(item, body={**item.body, **fields}))
    sets = {f"body.{name}": value for name, value in fields.items()}
    try:
        return Item.from_record(dynamodb.update(items.changing(scope, id, sets, items.live())))
    except ConditionFailed:
        return None


def rewrite(scope: str, id: str, change: Callable[[Item], Item]) -> Item | None:
    """Replace an item by what `change` makes of it, with its unique keys and references, all or nothing.

    `change` keeps scope and id, is called again when another writer came first, and may raise. A unique key that it
    keeps and gives attributes has these set. Returns the item as it is then, or None when there is none.

    Raises Taken, MissingTarget, TooManyReferrers, TransactionTooLarge, aws.Unavailable.
    """
    for _ in tries():
        before = read(scope, id)
        if before is None:
            return None
        after = change(before)
        if _transact([(items.replacing(before, after), None), *relations.writes(before, after)]):
            return replace(after, revision=before.revision + 1)
    raise aws.Unavailable("TransactionConflict")


def delete(scope: str, id: str, *, beside: Sequence[tuple[Write, Meaning]] = ()) -> bool:
    """Remove an item, its unique keys and its references and do what else belongs to it, all or nothing.

    False when there is none. Raises InUse when something refers to it, what a write beside means, aws.Unavailable.
    """
    if beside:
        return _delete_related(read(scope, id), beside)
    live = items.live()
    single = " AND ".join(f"attribute_not_exists(#{name})" for name in ("claims", "points", "pointed_by"))
    try:
        dynamodb.delete(dynamodb.deleting(scope, id, Condition(f"{live.text} AND {single}", live.values)))
    except ConditionFailed as failed:
        return _delete_related(Item.from_record(failed.found), ()) if failed.found else failed.was_retried
    return True


def _delete_related(item: Item | None, beside: Sequence[tuple[Write, Meaning]]) -> bool:
    for _ in tries():
        if item is None or not item.body or not item.is_live:
            return False
        if item.referrers:
            raise InUse(item.referrers)
        same = items.unchanged(item)
        unused = Condition(f"{same.text} AND attribute_not_exists(#pointed_by)", same.values)
        deletion = dynamodb.deleting(item.scope, item.id, unused)
        related = relations.writes(item, replace(item, unique_keys=(), references=()))
        if _transact([(deletion, None), *related, *beside]):
            return True
        item = read(item.scope, item.id)
    raise aws.Unavailable("TransactionConflict")


def renew(scope: str, id: str, *, expires: int) -> bool:
    """Set the second at which an item is gone; False when it is gone already. Raises aws.Unavailable."""
    try:
        leased = Condition("#expires > :now", {"now": items.now()})
        dynamodb.update(dynamodb.updating(scope, id, leased, sets={"expires": expires}))
    except ConditionFailed:
        return False
    return True


def tries() -> Iterator[None]:
    """Yield once for each try, after a pause in which others who met each other drift apart."""
    for number in range(_TRIES):
        time.sleep(random.uniform(0, number * _PAUSE))
        yield


def _transact(writes: Sequence[tuple[Write, Meaning]]) -> bool:
    """Do all or nothing; False when the item has changed meanwhile. Raises what else a failed condition means."""
    failed = [writes[place][1] for place in dynamodb.transact([write for write, _ in writes])]
    if failed and failed[0] is not None:
        raise _meant(failed[0])
    return not failed


def _meant(error: Exception) -> Exception:
    if isinstance(error, MissingTarget) and read(error.reference.scope, error.reference.id):
        return TooManyReferrers(error.reference)
    return error


def _pages(scope: str, before: str | None, count: int | None) -> Iterator[list[dict[str, Any]]]:
    return dynamodb.pages(
        {"scope": scope, "now": items.now(), **({"before": before} if before else {})},
        limit=count,
        KeyConditionExpression="#scope = :scope" + (" AND #id < :before" if before else ""),
        FilterExpression=items.live().text,
        ProjectionExpression="#scope, #id, #body, #parts, #expires, #revision",
    )
