"""The one table (DynamoDB): items under a scope and an id, and the unique keys and references between them.

A scope is one account's items of one kind, so a list is one Query and a read one GetItem, whatever the size. Every
change is one transaction, which raises the item's revision and also writes the audit events of the change. It fails and
is tried again where another has changed the item since it was read.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chalicelib.storage import aws, dynamodb, items, relations, unique_keys
from chalicelib.storage.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.references import InUse, MissingTarget, TooManyReferrers
from chalicelib.storage.relations import Meaning
from chalicelib.storage.unique_keys import Taken, UniqueKey

Change = Callable[[Item], Item]
Writes = Sequence[tuple[Write, Meaning]]  # each with what it means when its condition fails
Check = Callable[[Item], None]
Also = Callable[[Item, Item], Sequence[Item]]  # what to write with a change, made of the item before and after it

_AT_ONCE = 100  # writes in one transaction
_LARGE = 800_000  # characters of items on a page, when DynamoDB broke off at its 1 MB
_TRIES = 12  # at a change that others overtake
_PAUSE = 0.02  # seconds before the second try, at most; each further one may wait as much longer


def create(*new: Item, first: Writes = (), beside: Writes = ()) -> None:
    """Write items with their unique keys and references, all or nothing, with other writes before and beside them.

    Writing the same items again is harmless, so a retry after a lost answer succeeds. A unique key whose holder has
    expired, or has the same `successor`, is taken over, and the holder removed.
    Raises Taken, MissingTarget, TooManyReferrers, TransactionTooLarge, aws.Unavailable.
    """
    writes: list[tuple[Write, Meaning]] = [*first, *((creating(item), None) for item in new), *beside]
    for item in new:
        if item.unique_keys or item.references:
            writes += relations.writes(replace(item, unique_keys=(), references=()), item)
    if len(writes) == 1:
        dynamodb.put(writes[0][0])
        return
    writes = _joined(writes)
    for _ in tries():
        try:
            if _transact(writes):
                return
        except Taken as taken:
            writes = _taken_over(writes, taken, new)
    raise aws.Unavailable("TransactionConflict")


def _joined(writes: Sequence[tuple[Write, Meaning]]) -> list[tuple[Write, Meaning]]:
    """Join each check with the update of the same record: a transaction holds one action for each."""
    checks = {str(write["ConditionCheck"]["Key"]): write for write, _ in writes if "ConditionCheck" in write}
    updated = {str(write["Update"]["Key"]) for write, _ in writes if "Update" in write} & checks.keys()
    found: list[tuple[Write, Meaning]] = []
    for write, meaning in writes:
        key = str(next(iter(write.values())).get("Key"))
        if "Update" in write and key in updated:
            found.append((dynamodb.joined(write, checks[key]), meaning))
        elif "ConditionCheck" not in write or key not in updated:
            found.append((write, meaning))
    return found


def _taken_over(
    writes: Sequence[tuple[Write, Meaning]], taken: Taken, new: Sequence[Item]
) -> list[tuple[Write, Meaning]]:
    """Return the writes of a creation where one key is taken over. Raises Taken where its holder may keep it."""
    key, before = taken.key, unique_keys.holder(taken.key)
    heir = next(item for item in new if key in item.unique_keys)
    if before is None:
        return list(writes)  # it was released meanwhile
    if not before.scope:
        raise taken
    gone: Condition | None = Condition("attribute_not_exists(#id) OR #expires <= :now", {"now": items.now()})
    if key.successor and key.successor == before.successor:
        gone = None
    elif read(before.scope, before.id):
        raise taken
    others = [write for write in writes if write[1] is not taken]
    taking = unique_keys.taking(key, heir.scope, heir.id, items.SCHEMA, after=before)
    return [*others, (taking, taken), (dynamodb.deleting(before.scope, before.id, gone), None)]


def creating(item: Item) -> Write:
    """Return the write of a new item without relations, to be done beside another change."""
    return dynamodb.putting(item.to_record())


def read(scope: str, id: str) -> Item | None:
    """Return the item, or None when there is none or it has expired. Raises aws.Unavailable."""
    return of_record(dynamodb.get(scope, id))


def read_any(scope: str, id: str) -> Item | None:
    """Return the item, also where only modules of it were ever set and its body is empty. Raises aws.Unavailable."""
    return _live(dynamodb.get(scope, id))


def of_record(record: Mapping[str, Any] | None) -> Item | None:
    """Return the item of a record that was read, as `read` does."""
    item = _live(record)
    return item if item and item.body else None


def _live(record: Mapping[str, Any] | None) -> Item | None:
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


def nothing(_before: Item, _after: Item) -> Sequence[Item]:
    """Return nothing to write with a change."""
    return ()


def indexed(index: str, value: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` items of an index under a value, as `page` does; an index may lag by a second."""
    found: list[Item] = []
    for records in dynamodb.pages(
        {"value": value, "now": items.now(), **({"before": before} if before else {})},
        limit=count + 1,
        index=index,
        KeyConditionExpression="#indexed = :value" + (" AND #id < :before" if before else ""),
        FilterExpression=items.live().text,
    ):
        found += map(Item.from_record, records)
        if len(found) > count:
            return found[:count], True
    return found, False


def unchecked(_item: Item) -> None:
    """Let every item be removed."""


def rewrite(scope: str, id: str, change: Change, *, also: Also = nothing) -> Item | None:
    """Replace an item by what `change` makes of it, with its unique keys and references, all or nothing.

    `change` keeps scope and id, is called again when another writer came first, and may raise. A unique key that it
    keeps and gives attributes has these set. Returns the item as it is then, or None when there is none. Nothing is
    written where nothing differs.

    Raises Taken, MissingTarget, TooManyReferrers, TransactionTooLarge, aws.Unavailable.
    """
    return _rewrite(lambda: read(scope, id), change, also)


def rewrite_any(scope: str, id: str, change: Change, *, also: Also = nothing) -> Item:
    """Replace an item as `rewrite` does, also where it was never made and has modules at most."""
    blank = Item(scope, id, {}, revision=0)
    return _rewrite(lambda: read_any(scope, id) or blank, change, also) or blank


def _rewrite(find: Callable[[], Item | None], change: Change, also: Also) -> Item | None:
    for _ in tries():
        before = find()
        if before is None:
            return None
        after = change(before)
        if after == before:
            return before
        after = replace(after, revision=items.following(before))
        told = also(before, after)
        writes = [(items.replacing(before, after), None), *relations.writes(before, after)]
        if _transact(writes, told):
            return after
    raise aws.Unavailable("TransactionConflict")


def delete(scope: str, id: str, *, check: Check = unchecked, also: Also = nothing, beside: Writes = ()) -> bool:
    """Remove an item, its unique keys and its references, all or nothing with what is beside; False when there is none.

    `check` looks at the item before, and may raise. Raises InUse when something refers to it, what a write beside it
    means, aws.Unavailable.
    """
    return delete_item(read(scope, id), check=check, also=also, beside=beside)


def delete_item(item: Item | None, *, check: Check = unchecked, also: Also = nothing, beside: Writes = ()) -> bool:
    """Remove an item that was read, as `delete` does, which reads it once more only where it has changed."""
    for _ in tries():
        if item is None or not item.body or not item.is_live:
            return False
        check(item)
        if item.referrers:
            raise InUse(item.referrers)
        same = items.unchanged(item)
        unused = Condition(f"{same.text} AND attribute_not_exists(#pointed_by)", same.values)
        gone = replace(item, unique_keys=(), references=())
        writes = [(dynamodb.deleting(item.scope, item.id, unused), None), *relations.writes(item, gone), *beside]
        if _transact(writes, also(item, gone)):
            return True
        item = read(item.scope, item.id)
    raise aws.Unavailable("TransactionConflict")


def set_attributes(kind: str, value: str, attributes: Mapping[str, Any]) -> bool:
    """Set attributes of a unique key that is held; False when nothing holds it. Raises aws.Unavailable."""
    there, sets = Condition("attribute_exists(#id)"), {f"body.{name}": found for name, found in attributes.items()}
    try:
        dynamodb.update(dynamodb.updating(UniqueKey(kind, value).scope, unique_keys.ID, there, sets=sets))
    except ConditionFailed:
        return False
    return True


def exchange(before: Item, after: Item) -> Item | None:
    """Write what differs between two states of an item; return it, or None where it has changed meanwhile.

    Raises aws.Unavailable.
    """
    try:
        return Item.from_record(dynamodb.update(items.replacing(before, after)))
    except ConditionFailed:
        return None


def set_all(changes: Sequence[tuple[UniqueKey, Mapping[str, Any]]], *, checks: Sequence[Write] = ()) -> bool:
    """Set attributes of unique keys, many in one transaction with the checks; those that are gone are passed over.

    False when a check fails: then some are set, and others are not. Raises aws.Unavailable.
    """
    there, count = Condition("attribute_exists(#id)"), _AT_ONCE - len(checks)
    for start in range(0, len(changes), count):
        left = [
            dynamodb.updating(key.scope, unique_keys.ID, there, sets={f"body.{name}": it for name, it in sets.items()})
            for key, sets in changes[start : start + count]
        ]
        while left:
            try:
                dynamodb.transact([*checks, *left])
                break
            except TransactionFailed as failed:
                if failed.places[0] < len(checks):
                    return False
                left = [write for place, write in enumerate(left, len(checks)) if place not in failed.places]
    return True


def checking(scope: str, id: str, condition: Condition) -> Write:
    """Return the write that changes nothing, and lets a transaction fail where a condition does."""
    return dynamodb.checking(scope, id, condition)


def renew(scope: str, id: str, *, expires: int) -> bool:
    """Set the second at which an item is gone; False when it is gone already. Raises aws.Unavailable."""
    try:
        leased = Condition("#expires > :now", {"now": items.now()})
        dynamodb.update(dynamodb.updating(scope, id, leased, sets={"expires": expires}))
    except ConditionFailed:
        return False
    return True


def renew_all(places: Sequence[tuple[str, str]], *, expires: int) -> list[tuple[str, str]]:
    """Set the second at which items are gone, by scope and id; return those that are gone already.

    A hundred in one request, each by itself. Raises aws.Unavailable.
    """
    lost: list[tuple[str, str]] = []
    for start in range(0, len(places), _AT_ONCE):
        left = list(places[start : start + _AT_ONCE])
        while left:
            leased = Condition("#expires > :now", {"now": items.now()})
            try:
                dynamodb.transact([dynamodb.updating(*it, leased, sets={"expires": expires}) for it in left])
                break
            except TransactionFailed as failed:
                lost += [left[place] for place in failed.places]
                left = [it for place, it in enumerate(left) if place not in failed.places]
    return lost


def put(scope: str, id: str, body: Mapping[str, Any], *, expires: int) -> None:
    """Write an item, whatever was there, and raise its revision: for one that nobody else writes.

    Raises aws.Unavailable.
    """
    dynamodb.update(items.changing(scope, id, {"body": dict(body), "expires": expires}, Condition("")))


def touch(scope: str, id: str) -> None:
    """Raise the revision of an item, if there is one, for those who read it again when that has changed.

    Raises aws.Unavailable.
    """
    with suppress(ConditionFailed):
        dynamodb.update(items.changing(scope, id, {}, Condition("attribute_exists(#id)")))


def tries() -> Iterator[None]:
    """Yield at most twelve times, each after a random and longer pause, so that competing writers spread out."""
    yield
    for number in range(1, _TRIES):
        time.sleep(random.uniform(0, number * _PAUSE))
        yield


def _transact(writes: Sequence[tuple[Write, Meaning]], told: Sequence[Item] = ()) -> bool:
    """Do all or nothing; False when the item has changed meanwhile. Raises what else a failed condition means.

    What is told of the writes is written with them, and so proves that they were done when the answer was lost.
    """
    telling = [dynamodb.putting(item.to_record()) for item in told]
    try:
        dynamodb.transact([*(write for write, _ in writes), *telling])
    except TransactionFailed as failed:
        if failed.was_retried and told and read_any(told[0].scope, told[0].id):
            return True
        if meant := writes[failed.places[0]][1]:
            raise _meant(meant) from None
        return False
    return True


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
        ProjectionExpression="#scope, #id, #body, #parts, #unseen, #claims, #expires, #revision",
    )
