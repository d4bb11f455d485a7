"""The writes of items with their unique keys and references, and the transaction that does them all or not at all."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from chalicelib.storage import aws, dynamodb, items, places, references, shared_keys, table, unique_keys
from chalicelib.storage.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.items import Item
from chalicelib.storage.places import Place
from chalicelib.storage.references import InUse, MissingTarget, Reference, TooManyReferrers
from chalicelib.storage.unique_keys import Taken, UniqueKey

T = TypeVar("T")
# Of an item, and of one change: a transaction holds 100 actions, with item, event, idempotency key and the log's entry.
MAX_RELATIONS = 96
TRIES = 12  # at a change that others overtake
_PAUSE = 0.02  # seconds before the second try, at most; each further one may wait as much longer


class Overtaken(Exception):
    """A record has changed since it was read: read it again. Nothing was written."""


class TransactionTooLarge(Exception):
    """An item would have, or a change would touch, more relations than a transaction holds; `field` names them."""

    def __init__(self, named: Iterable[Reference]) -> None:
        super().__init__()
        self.field = next((reference.field for reference in named if reference.field), "")


def put(item: Item, holder: Place | None = None) -> list[Write]:
    """Return the writes of a new item; `holder` is the item that shows it, and whose revision thus grows too.

    Writing the same item again is harmless, so a retry after a lost answer succeeds. Raises TransactionTooLarge.
    """
    write = Write.put(item.to_record())
    if not (item.unique_keys or item.references or holder):
        return [write]
    return [write, *_relations(replace(item, unique_keys=(), references=()), item, holder)]


def rewrite(before: Item, after: Item, holder: Place | None = None) -> list[Write]:
    """Return the writes that turn an item into another state of it; they fail if it has changed meanwhile.

    A unique key that it keeps and gives attributes has these set. Raises TransactionTooLarge.
    """
    return [items.rewrite(before, after), *_relations(before, after, holder)]


def remove(item: Item, holder: Place | None = None) -> list[Write]:
    """Return the writes that remove an item; they fail if it has changed. Raises InUse when something refers to it.

    Of a malformed item, the unique keys that it holds and the references whose targets exist are removed.
    """
    if item.referrers:
        raise InUse(item.referrers)
    if item.malformed:
        gone = replace(item, unique_keys=(), references=())
        return [Write.delete(*item.place, items.unchanged(item)), *_relations(_held(item), gone, holder)]
    same = items.unchanged(item)
    unused = Condition(f"{same.text} AND attribute_not_exists(#pointed_by)", same.values)
    gone = replace(item, unique_keys=(), references=())
    return [Write.delete(*item.place, unused), *_relations(item, gone, holder)]


def end(item: Item) -> list[Write]:
    """Return the writes that remove an item whose lease has ended; they fail if it was renewed."""
    gone = replace(item, unique_keys=(), references=())
    return [Write.delete(*item.place, items.lapsed()), *_relations(item, gone, None)]


def spread(writes: Iterable[Write], throttled: Sequence[str]) -> bool:
    """Divide the throttled collections of new items into shards; return whether there were any.

    `moved` then returns such a write with its new place. Raises aws.Unavailable.
    """
    new = {write.request["Item"]["scope"]["S"] for write in writes if write.action == "Put"}
    busy = [scope for scope in new & {*throttled} if places.is_sharded(scope)]
    for scope in busy:
        table.spread(scope)
    return bool(busy)


def moved(write: Write) -> Write:
    """Return the write of a new item with the place where its record belongs now."""
    if write.action != "Put":
        return write
    item = write.request["Item"]
    scope, id = places.written(item["scope"]["S"], item["id"]["S"])
    return replace(write, request={**write.request, "Item": {**item, "scope": {"S": scope}, "id": {"S": id}}})


def commit(
    writes: Sequence[Write],
    *,
    proof: Place | None = None,
    created: Sequence[Item] = (),
    ended: Callable[[Item], Sequence[Write]] = lambda _: (),
) -> None:
    """Do all or nothing. `proof` is the place of a record among the writes: where an answer was lost, it is there if
    they were done. The items `created` take over a unique key whose holder has expired, or has the same `successor`.
    `ended` returns the writes that tell of the end of such a holder.

    Raises Overtaken where the write that failed has no `failing`, else that, or TooManyReferrers; aws.Unavailable.
    """
    if len(writes) == 1 and writes[0].action == "Put" and "ConditionExpression" not in writes[0].request:
        dynamodb.do(writes[0])
        return None
    writes = _joined(_passed_on(writes))
    for number in range(TRIES):
        try:
            return dynamodb.transact(writes)
        except TransactionFailed as failed:
            if failed.was_retried and proof and dynamodb.get(*proof):
                return None
            failing = writes[failed.places[0]].failing
        if not isinstance(failing, Taken):
            raise _error_of(failing)
        writes = _taken_over(writes, failing, created, ended)
        pause(number)
    raise aws.Unavailable("TransactionConflict")


def retried(attempt: Callable[[], T]) -> T:
    """Call `attempt`, again if it raises Overtaken; return its result. Raises aws.Unavailable."""
    for number in range(TRIES):
        try:
            return attempt()
        except Overtaken:
            pause(number)
    raise aws.Unavailable("TransactionConflict")


def pause(number: int) -> None:
    """Wait for a random time, longer after each try, so that competing writers spread out."""
    time.sleep(random.uniform(0, (number + 1) * _PAUSE))


def _error_of(failing: Exception | None) -> Exception:
    """Return the exception to raise for a write that failed with such a `failing`; Overtaken where it has none."""
    if isinstance(failing, MissingTarget) and table.find(*failing.reference.target):
        return TooManyReferrers(failing.reference)
    return failing or Overtaken()


def _passed_on(writes: Sequence[Write]) -> Sequence[Write]:
    """Join the release of a unique key with its taking by another item: it goes over from the one to the other."""
    released = {str(write.request["Key"]): write for write in writes if write.action == "Delete"}
    taken = {_key(write): write for write in writes if write.action == "Put" and isinstance(write.failing, Taken)}
    if not released.keys() & taken.keys():
        return writes
    found = []
    for write in writes:
        if write.action == "Delete" and str(write.request["Key"]) in taken:
            continue
        before = released.get(_key(write)) if write.action == "Put" else None
        found.append(replace(write, request={**write.request, **_conditions(before)}) if before else write)
    return found


def _held(item: Item) -> Item:
    """Return a malformed item with the unique keys and references that its deletion can remove."""
    keys = [key for key in item.unique_keys if key.kind in shared_keys.KINDS or _holds(item, key)]
    targets = [it for it in item.references if dynamodb.get(*it.target)]
    return replace(item, unique_keys=tuple(keys), references=tuple(targets))


def _holds(item: Item, key: UniqueKey) -> bool:
    holder = unique_keys.holder(key)
    return holder is not None and holder.id == item.id


def _key(put: Write) -> str:
    return str({name: put.request["Item"][name] for name in ("scope", "id")})


def _conditions(write: Write) -> Mapping[str, Any]:
    return {name: value for name, value in write.request.items() if name not in ("TableName", "Key")}


def _joined(writes: Sequence[Write]) -> Sequence[Write]:
    """Join each check with the update of the same record: a transaction holds one action for each."""
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


def _taken_over(
    writes: Sequence[Write], taken: Taken, created: Sequence[Item], ended: Callable[[Item], Sequence[Write]]
) -> Sequence[Write]:
    """Return the writes with the key taken over for a created item. Raises Taken where its holder may keep it."""
    key = taken.key
    new = next((item for item in created if key in item.unique_keys), None)
    if new is None:
        raise taken
    others = [write for write in writes if write.failing is not taken]
    if key.kind in shared_keys.KINDS:
        failed = next(write for write in writes if write.failing is taken)
        taking = shared_keys.take_over(key, new.scope, new.id, failed.counts, ended)
        if taking is None:
            raise Overtaken
        return [*others, *taking]
    before = unique_keys.holder(key)
    if before is None:
        return writes  # it was released meanwhile
    if not before.scope:
        raise taken
    lapsed = items.lapsed()
    gone: Condition | None = Condition(f"attribute_not_exists(#id) OR {lapsed.text}", lapsed.values)
    if key.successor and key.successor == before.successor:
        gone = None
    elif table.find(before.scope, before.id):
        raise taken
    take = unique_keys.take(key, new.scope, new.id, after=before)
    return [*others, take, Write.delete(before.scope, before.id, gone)]


def _relations(before: Item, after: Item, holder: Place | None) -> list[Write]:
    """Return the writes that turn the relations of an item into those it is to have. Raises TransactionTooLarge."""
    changes = [*_unique_keys(before, after), *_references(before, after, holder)]
    if max(len(changes), len(after.unique_keys) + len(after.references)) > MAX_RELATIONS:
        raise TransactionTooLarge(after.references)
    if holder and holder not in {named.target for named in set(after.references) ^ set(before.references)}:
        changes.append(Write.update(*holder, Condition("attribute_exists(#body)"), adds={"revision": 1}))
    return changes


def _unique_keys(before: Item, after: Item) -> Iterator[Write]:
    taken = [key for key in after.unique_keys if key not in before.unique_keys]
    released = [key for key in before.unique_keys if key not in after.unique_keys]
    yield from shared_keys.change(_shared(released), _shared(taken), after.scope, after.id)
    for key in after.unique_keys:
        if key in before.unique_keys and key.attributes:
            yield unique_keys.change(key, after.id)
        elif key in taken and key.kind not in shared_keys.KINDS:
            yield unique_keys.take(key, after.scope, after.id)
    yield from (unique_keys.release(key, after.id) for key in released if key.kind not in shared_keys.KINDS)


def _shared(keys: Iterable[UniqueKey]) -> list[UniqueKey]:
    return [key for key in keys if key.kind in shared_keys.KINDS]


def _references(before: Item, after: Item, holder: Place | None) -> Iterator[Write]:
    def counted(named: list[Reference]) -> Mapping[str, int]:
        return {"revision": 1} if named[0].target == holder else {}

    for new in references.by_target(set(after.references) - set(before.references)):
        yield references.record(new, after.scope, after.id, adds=counted(new))
    for old in references.by_target(set(before.references) - set(after.references)):
        yield references.erase(old, after.scope, after.id, adds=counted(old))
