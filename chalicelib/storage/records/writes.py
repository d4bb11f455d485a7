"""Writes of items with their unique keys and references, in transactions that write all or nothing."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from chalicelib import clock
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.records import direct_writes, item_keys, items, references, shared_keys, table, unique_keys
from chalicelib.storage.records.item_keys import ItemKey
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import InUse, MissingTarget, Reference, TooManyReferrers
from chalicelib.storage.records.shared_keys import Endings
from chalicelib.storage.records.unique_keys import Taken, UniqueKey

T = TypeVar("T")
# The most unique keys and references that a transaction can write. It can have 100 actions, and may need four for the
# item, the audit event, the idempotency key and the change log.
MAX_RELATIONS = 96
TRIES = 12  # the most attempts of a change that conflicts with others. The last failure raises aws.Unavailable
_UNLEASED = Condition("attribute_exists(#id) AND attribute_not_exists(#lease) AND attribute_not_exists(#expires)")
_PAUSE = 0.02  # seconds by which the maximum pause between two attempts grows with each attempt


class Overtaken(Exception):
    """A record has changed since it was read. Nothing was written. Read the record again."""


class TransactionTooLarge(Exception):
    """A transaction would write too many unique keys and references. `field` is the field with the references."""

    def __init__(self, named: Iterable[Reference]) -> None:
        super().__init__()
        self.field = next((reference.field for reference in named if reference.field), "")


def put(item: Item, parent: ItemKey | None = None) -> list[Write]:
    """Return the writes of a new item. A retry after a lost answer succeeds, because it writes the same item.

    With `parent`, they also increment the revision of this parent item: its responses contain the new item. Raises
    TransactionTooLarge.
    """
    write = Write.put(item.to_record())
    if not (item.unique_keys or item.references or parent):
        return [write]
    return [write, *_relations(replace(item, unique_keys=(), references=()), item, parent)]


def rewrite(before: Item, after: Item, parent: ItemKey | None = None) -> list[Write]:
    """Return the writes that replace an item by a new state. They fail if the item has changed meanwhile.

    They also set the attributes of unique keys that stay. Raises TransactionTooLarge.
    """
    return [items.rewrite(before, after), *_relations(before, after, parent)]


def remove(item: Item, parent: ItemKey | None = None) -> list[Write]:
    """Return the writes that remove an item. They fail if it has changed. Raises InUse if another item refers to it.

    If the item is malformed, the writes skip unique keys that another item holds, and references to missing targets.
    """
    if item.referrers:
        raise InUse(item.referrers)
    if item.malformed:
        bare_item = replace(item, unique_keys=(), references=())
        return [
            Write.delete(*item.key, items.require_unchanged(item)),
            *_relations(_keep_removable(item), bare_item, parent),
        ]
    same = items.require_unchanged(item)
    unused = Condition(f"{same.text} AND attribute_not_exists(#pointed_by)", same.values)
    bare_item = replace(item, unique_keys=(), references=())
    return [Write.delete(*item.key, unused), *_relations(item, bare_item, parent)]


def end(item: Item) -> list[Write]:
    """Return the writes that remove an item whose lease is over. They fail if the lease has been renewed."""
    bare_item = replace(item, unique_keys=(), references=())
    condition = items.require_lapsed() if item.has_own_lease else _UNLEASED
    return [Write.delete(*item.key, condition), *_relations(item, bare_item, None)]


def spread(writes: Iterable[Write], throttled: Sequence[str]) -> bool:
    """Divide each collection into shards if DynamoDB throttled the write of a new item in it.

    `throttled` are the partition keys of throttled writes. Return whether a collection was divided. If so, the caller
    must pass its writes through `move` before it repeats them. Raises aws.Unavailable.
    """
    new = {write.request["Item"]["scope"]["S"] for write in writes if write.action == "Put"}
    busy = [scope for scope in new & {*throttled} if item_keys.is_sharded(scope)]
    for scope in busy:
        direct_writes.spread(scope)
    return bool(busy)


def move(write: Write) -> Write:
    """Return the write of a new item, directed to a shard if `spread` has divided the item's collection."""
    if write.action != "Put":
        return write
    item = write.request["Item"]
    scope, id = item_keys.build_new(item["scope"]["S"], item["id"]["S"])
    return replace(write, request={**write.request, "Item": {**item, "scope": {"S": scope}, "id": {"S": id}}})


def commit(
    writes: Sequence[Write],
    *,
    proof: ItemKey | None = None,
    created: Sequence[Item] = (),
    endings: Endings | None = None,
) -> None:
    """Do all writes or none. If the condition of a write is false, raise the write's `failing`, or else Overtaken.

    `proof` is the primary key of a record that the writes create. If DynamoDB's answer was lost, this record proves
    that the writes were done. `created` are the new items. If a unique key of a new item belongs to another item, the
    new item takes it, provided that the other item has ended or has the same `successor`. `endings` then records the
    end of the other item. Raises aws.Unavailable, TooManyReferrers.
    """
    if len(writes) == 1 and writes[0].action == "Put" and "ConditionExpression" not in writes[0].request:
        dynamodb.do(writes[0])
        return None
    item_writes, taken = _merge_checks(_merge_moved_keys(writes)), dict[UniqueKey, Sequence[Write]]()
    for number in range(TRIES):
        other_writes = [
            write for write in item_writes if not (isinstance(write.failing, Taken) and write.failing.key in taken)
        ]
        all_writes = [*other_writes, *chain.from_iterable(taken.values())]
        try:
            return dynamodb.transact(all_writes)
        except TransactionFailed as failed:
            if failed.was_retried and proof and dynamodb.get(*proof):
                return None
            failing = all_writes[failed.indexes[0]].failing
        if not isinstance(failing, Taken):
            raise _error_of(failing)
        taken.pop(failing.key, None)  # the key may have another owner now, so these writes are outdated
        if taking := _take_over(item_writes, failing, created, endings):
            taken[failing.key] = taking
        pause(number)
    raise aws.Unavailable("TransactionConflict")


def retry(attempt: Callable[[], T]) -> T:
    """Call `attempt`, and call it again if it raises Overtaken. Return its result. Raises aws.Unavailable."""
    for number in range(TRIES):
        try:
            return attempt()
        except Overtaken:
            pause(number)
    raise aws.Unavailable("TransactionConflict")


def pause(number: int) -> None:
    """Wait for a random time before the next attempt. So competing writers do not collide again.

    The longest time grows with each attempt.
    """
    time.sleep(random.uniform(0, (number + 1) * _PAUSE))


def _error_of(failing: Exception | None) -> Exception:
    """Return the exception for a write with a false condition. `failing` is the exception of the write, if any."""
    if isinstance(failing, MissingTarget) and table.find(*failing.reference.target):
        return TooManyReferrers(failing.reference)
    return failing or Overtaken()


def _merge_moved_keys(writes: Sequence[Write]) -> Sequence[Write]:
    """Merge the two writes of a unique key that one item releases and another item takes."""
    released = {str(write.request["Key"]): write for write in writes if write.action == "Delete"}
    taken = {_key(write): write for write in writes if write.action == "Put" and isinstance(write.failing, Taken)}
    if not released.keys() & taken.keys():
        return writes
    joined = []
    for write in writes:
        if write.action == "Delete" and str(write.request["Key"]) in taken:
            continue
        before = released.get(_key(write)) if write.action == "Put" else None
        joined.append(replace(write, request={**write.request, **_conditions(before)}) if before else write)
    return joined


def _keep_removable(item: Item) -> Item:
    """Return a malformed item without the unique keys and references that a transaction cannot remove.

    A transaction can only remove keys that this item holds, and references to items that exist.
    """
    keys = [key for key in item.unique_keys if key.kind in shared_keys.KINDS or _holds(item, key)]
    targets = [reference for reference in item.references if dynamodb.get(*reference.target)]
    return replace(item, unique_keys=tuple(keys), references=tuple(targets))


def _holds(item: Item, key: UniqueKey) -> bool:
    owner = unique_keys.find_owner(key)
    return owner is not None and owner.id == item.id


def _key(put: Write) -> str:
    return str({name: put.request["Item"][name] for name in ("scope", "id")})


def _conditions(write: Write) -> Mapping[str, Any]:
    return {name: value for name, value in write.request.items() if name not in ("TableName", "Key")}


def _merge_checks(writes: Sequence[Write]) -> Sequence[Write]:
    """Merge each check with the update of the same record. A transaction permits only one action per record."""
    checks = {str(write.request["Key"]): write for write in writes if write.action == "ConditionCheck"}
    if not checks:
        return writes
    updated = {str(write.request["Key"]) for write in writes if write.action == "Update"}
    joined = []
    for write in writes:
        key = str(write.request.get("Key"))
        if write.action == "Update" and key in checks:
            joined.append(write.and_check(checks[key]))
        elif write.action != "ConditionCheck" or key not in updated:
            joined.append(write)
    return joined


def _take_over(
    writes: Sequence[Write], taken: Taken, created: Sequence[Item], endings: Endings | None
) -> Sequence[Write]:
    """Return the writes that take a unique key from its owner for a created item.

    There are none if no item holds the key any more. Raises Taken if the item with the key is live.
    """
    key = taken.key
    new = next((item for item in created if key in item.unique_keys), None)
    if new is None:
        raise taken
    if key.kind in shared_keys.KINDS:
        counts = next(write.counts for write in writes if isinstance(write.failing, Taken) and write.failing.key == key)
        taking = shared_keys.take_over(key, new.scope, new.id, counts, endings)
        if taking is None:
            raise Overtaken
        return taking
    owner = unique_keys.find_owner(key)
    if owner is None:
        return ()
    if not owner.scope:
        raise taken
    lapsed = items.require_lapsed()
    condition: Condition | None = Condition(f"attribute_not_exists(#id) OR {lapsed.text}", lapsed.values)
    if key.successor and key.successor == owner.successor:
        condition = None
    elif table.find(owner.scope, owner.id):
        raise taken
    take = unique_keys.take(key, new.scope, new.id, after=owner)
    return [take, Write.delete(owner.scope, owner.id, condition, taken)]


def _relations(before: Item, after: Item, parent: ItemKey | None) -> list[Write]:
    """Return the writes that change an item's unique keys and references. Raises TransactionTooLarge."""
    changes = [*_unique_keys(before, after), *_references(before, after, parent)]
    if max(len(changes), len(after.unique_keys) + len(after.references)) > MAX_RELATIONS:
        raise TransactionTooLarge(after.references)
    if parent and parent not in {reference.target for reference in set(after.references) ^ set(before.references)}:
        sets = {"changed": clock.seconds()}
        changes.append(Write.update(*parent, Condition("attribute_exists(#body)"), sets=sets, adds={"revision": 1}))
    return changes


def _unique_keys(before: Item, after: Item) -> Iterator[Write]:
    taken = [key for key in after.unique_keys if key not in before.unique_keys]
    released = [key for key in before.unique_keys if key not in after.unique_keys]
    yield from shared_keys.change(_select_shared(released), _select_shared(taken), after.scope, after.id)
    for key in after.unique_keys:
        if key in before.unique_keys and key.attributes:
            yield unique_keys.change(key, after.id)
        elif key in taken and key.kind not in shared_keys.KINDS:
            yield unique_keys.take(key, after.scope, after.id)
    yield from (unique_keys.release(key, after.id) for key in released if key.kind not in shared_keys.KINDS)


def _select_shared(keys: Iterable[UniqueKey]) -> list[UniqueKey]:
    return [key for key in keys if key.kind in shared_keys.KINDS]


def _references(before: Item, after: Item, parent: ItemKey | None) -> Iterator[Write]:
    def find_change_time(group: list[Reference]) -> int | None:
        return clock.seconds() if group[0].target == parent else None

    for new in references.group_by_target(set(after.references) - set(before.references)):
        yield references.record(new, after.scope, after.id, changed=find_change_time(new))
    for old in references.group_by_target(set(before.references) - set(after.references)):
        yield references.erase(old, after.scope, after.id, changed=find_change_time(old))
