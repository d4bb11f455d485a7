"""Changes: transactions that write items, and everything that records the change.

A change writes its items, their audit events, the revisions, the idempotency key and an entry of the change log, all or
nothing. Other files write only records that have no audit events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.model.audit import partitions, trail
from chalicelib.model.audit.details import Details
from chalicelib.model.audit.trail import Trail, Verb
from chalicelib.model.base import kinds
from chalicelib.model.base.idempotency import Request
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import NotReady, Stored
from chalicelib.model.base.switches import OFFBOARDED, SUSPENDED
from chalicelib.storage.client.dynamodb import Throttled, Write
from chalicelib.storage.records import change_log, item_keys, items, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.item_keys import ItemKey
from chalicelib.storage.records.items import Item

_NONE: Mapping[str, Any] = {}
# fields with free text: if only they have changed, the audit event names them without their values
_FREE_TEXT = (["description"], ["metadata"], ["description", "metadata"])


@dataclass(frozen=True)
class ItemChange:
    """A change of one item. `kind` is None for an internal record.

    `before` is None for a new item, `after` is None for a removed one. If `writes` is empty, the item stays unchanged.
    """

    kind: Kind | None
    before: Item | None
    after: Item | None
    writes: tuple[Write, ...] = ()
    event: Item | None = None


@dataclass(frozen=True)
class Change:
    """A transaction of one actor. Each method adds a step.

    `check` raises an error if the item of the first step is not in the state that the request requires. `request` has
    the idempotency key. `other_writes` have no audit event. If several conditions fail, errors of `other_writes` take
    precedence.
    """

    by: Trail
    check: Callable[[Item], None] | None = None
    request: Request | None = None
    steps: tuple[ItemChange, ...] = ()
    other_writes: tuple[Write, ...] = ()

    @property
    def events(self) -> tuple[Item, ...]:
        return tuple(step.event for step in self.steps if step.event)

    def put(self, item: Item, *, details: Details = _NONE, more: Details = _NONE) -> "Change":
        """Create an item. Its audit event shows `details` and `more`. By default, `details` are its audited fields."""
        kind = kinds.identify_item(item)
        item_writes = writes.put(item, _parent(item) if kind and kind.is_shown_in_parent else None)
        event = None
        if kind:
            shown = {**(details or _describe_item(kind, item, _NONE)), **more}
            event = trail.event(self.by, kind, item, "create", shown=shown)
        return self._add_step(ItemChange(kind, None, item, tuple(item_writes), event))

    def rewrite(
        self, before: Item, edit: Callable[[Item], Item], *, verb: Verb = "update", module: str = ""
    ) -> "Change":
        """Replace an item by the result of `edit`. Nothing is written if both are equal.

        If `edit` changes only a module, `module` is the name of the module.
        """
        self._check(before)
        kind, after = kinds.identify_item(before), edit(before)
        if after == before:
            return self._add_step(ItemChange(kind, before, before))
        after = replace(after, revision=items.choose_revision(before))
        changed = trail.list_differences(*_records(before, after, module))
        shown = _describe_difference(kind, before, after, module) if kind and changed not in _FREE_TEXT else {}
        item_writes = writes.rewrite(before, after, _parent(before) if kind and kind.is_shown_in_parent else None)
        event = trail.event(self.by, kind, after, verb, module, changed, shown) if kind else None
        return self._add_step(ItemChange(kind, before, after, tuple(item_writes), event))

    def remove(self, item: Item, *, details: Details = _NONE) -> "Change":
        """Remove an item, which can be malformed. `details` are added to the details in its audit event.

        Raises InUse if another item refers to it.
        """
        self._check(item)
        kind = kinds.identify_item(item)
        item = _remove_malformed_body(kind, item) if kind else item
        item_writes = writes.remove(item, _parent(item) if kind and kind.is_shown_in_parent else None)
        event = _event_of_removal(self.by, kind, item, details) if kind else None
        return self._add_step(ItemChange(kind, item, None, tuple(item_writes), event))

    def end(self, item: Item, lease: Mapping[str, Any] | None = None) -> "Change":
        """Remove an item, for example a tunnel, after the end of its lease.

        `lease` is the separate record that contains the lease, if any: for a tunnel, the record of its SSH gateway.
        """
        kind = kinds.identify_item(item)
        ending = kind.stored_type.ending(item, lease) if kind else None
        item = _remove_malformed_body(kind, item) if kind else item
        event = _event_of_removal(self.by, kind, item, ending.details if ending else _NONE) if kind else None
        change = self._add_step(ItemChange(kind, item, None, tuple(writes.end(item)), event))
        return change.add(*ending.writes) if ending else change

    def add(self, *more: Write) -> "Change":
        """Add writes and conditions without an audit event."""
        return replace(self, other_writes=(*self.other_writes, *more))

    def commit(self) -> Item | None:
        """Write all steps or nothing. Return the item of the first step after the change.

        Raises Overtaken if an item has changed since it was read, Repeated if the idempotency key was used meanwhile,
        the exception `Write.failing` of a write if its condition is false, and aws.Unavailable.
        """
        first = self.item
        steps = [step for step in self.steps if step.writes]
        if not (steps or self.other_writes):
            return first
        lets_edge_act = any(step.after and step.kind and step.kind.lets_edge_act for step in steps)
        if first and lets_edge_act and self.by != trail.EDGE:
            trail.let_edge_act(first.account)
        try:
            self._commit(steps)
        except Throttled as throttled:
            return self._reshard(throttled).commit()
        except NotReady as state:
            if not state.make_room():
                raise
            return self.commit()
        return first

    @property
    def item(self) -> Item | None:
        """Return the item of the first step after the change. A removed item is returned as it was."""
        return self.steps[0].after or self.steps[0].before if self.steps else None

    def _commit(self, steps: Sequence[ItemChange]) -> None:
        first, events = self.item, self.events
        key = [self.request.keep(first, once=_is_shown_once(self.steps[0]))] if self.request and first else []
        recorded = [Write.put(event.to_record()) for event in events]
        item_writes = [*self.other_writes, *(write for step in steps for write in step.writes)]
        for step in steps:
            if step.kind:
                item_writes += step.kind.stored_type.prepare(step.before, step.after, step.writes)
        proof = (events[0].scope, events[0].id) if events else None
        created = [step.after for step in steps if step.after]
        all_writes = [*key, *item_writes, *recorded, *change_log.entries(item_writes)]
        writes.commit(all_writes, proof=proof, created=created, endings=_Endings())

    def _reshard(self, throttled: Throttled) -> "Change":
        """Return the change with other partition keys for the writes that DynamoDB throttled.

        Each of these writes moves to another shard (partition) of its collection. Raises Throttled if these collections
        cannot be divided into shards.
        """
        if item_keys.written_format() < 3:
            raise throttled
        are_spread = writes.spread([write for step in self.steps for write in step.writes], throttled.scopes)
        are_hot = any(event.scope in throttled.scopes and partitions.is_first(event) for event in self.events)
        if not are_spread and not are_hot:
            raise throttled
        steps = self.steps
        if are_spread:
            steps = tuple(replace(step, writes=tuple(map(writes.move, step.writes))) for step in steps)
        if are_hot:
            steps = tuple(replace(step, event=trail.spread(step.event) if step.event else None) for step in steps)
        return replace(self, steps=steps)

    def _check(self, item: Item) -> None:
        """Raise the error of `check` if the item of the first step is not in the state that the request requires."""
        if self.check and not self.steps:
            self.check(item)

    def _add_step(self, step: ItemChange) -> "Change":
        return replace(self, steps=(*self.steps, step))


def rewrite(change: Change, scope: str, id: str, edit: Callable[[Item], Item]) -> Item | None:
    """Replace an item by the result of `edit`. Return the result, or None if the item does not exist.

    `edit` may raise errors. If another writer was faster, `edit` is called again. Raises the errors of `commit`.
    """

    def attempt() -> Item | None:
        before = table.read(scope, id)
        return change.rewrite(before, edit).commit() if before else None

    return writes.retry(attempt)


def delete(change: Change, scope: str, id: str) -> bool:
    """Remove an item, which can be malformed. Return False if it does not exist.

    Raises InUse if an item refers to it, and the errors of `commit`.
    """

    def attempt() -> bool:
        item = table.find(scope, id)
        if item:
            change.remove(item).commit()
        return item is not None

    return writes.retry(attempt)


class _Endings:
    """Ends an item with a lapsed lease when another item takes one of its unique keys.

    The stored type of the ended item returns the writes.
    """

    def find_lease(self, home: str, attributes: Mapping[str, Any]) -> ItemKey | None:
        kind = kinds.find_by_path(home.partition("#")[2])
        return kind.stored_type.find_lease(attributes) if kind else None

    def end_lease(self, item: Item, lease: Mapping[str, Any] | None) -> list[Write] | None:
        kind = kinds.find_by_path(item.path)
        ending = kind.stored_type.end_lease(lease) if kind else None
        return None if ending is None else [*ending, *change_log.entries(ending)]

    def record_end(self, item: Item, lease: Mapping[str, Any] | None) -> list[Write]:
        kind = kinds.find_by_path(item.path)
        ending = kind.stored_type.ending(item, lease) if kind and kind.has(item.id) else None
        if kind is None or ending is None:
            return []
        event = _event_of_removal(trail.EDGE, kind, item, ending.details)
        return [Write.put(event.to_record()), *ending.writes, *change_log.entries(ending.writes)]


def _is_shown_once(step: ItemChange) -> bool:
    return bool(step.kind and step.kind.stored_type.IS_SHOWN_ONCE)


def _event_of_removal(by: Trail, kind: Kind, item: Item, more: Details) -> Item:
    shown = _describe_item(kind, item, more)
    return trail.event(by, kind, replace(item, revision=item.revision + 1), "delete", shown=shown)


def _parent(item: Item) -> ItemKey | None:
    """Return the primary key of an item's parent, for example a route's edge. None if the item has only modules."""
    return items.find_parent(item.scope) if item.body or item.malformed else None


def _describe_item(kind: Kind, item: Item, more: Details) -> Details:
    """Return the event details of a created or removed item."""
    return {**trail.details_of(_list_audited(kind, item)), **more}


def _describe_difference(kind: Kind, before: Item, after: Item, module: str) -> Details:
    """Return the event details of a changed item. If `module` is set, return those of its changed module."""
    if module:
        return trail.details_between(*(_list_audited_of_module(module, item.modules) for item in (before, after)))
    return trail.details_between(_list_audited(kind, before), _list_audited(kind, after))


def _remove_malformed_body(kind: Kind, item: Item) -> Item:
    """Return the item. If its body or a module is malformed, return it without body and modules."""
    if item.malformed:
        return item
    try:
        _list_audited(kind, item)
    except MalformedRecord as malformed:
        return item.drop_body(malformed)
    return item


def _records(before: Item, after: Item, module: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records before and after a change: of `module`, or if it is "", of the body and all modules."""
    return (item.modules.get(module, {}) if module else {**item.body, **item.modules} for item in (before, after))


def _list_audited(kind: Kind, item: Item) -> dict[str, Any]:
    """Return the audited fields of an item and its modules, and whether the item is suspended or offboarded."""
    body = _list_audited_of(kind.stored_type, item.body) if item.body else {}
    marks = {name: True for name in (SUSPENDED, OFFBOARDED) if item.unseen.get(name)}
    return {**body, **marks, **{name: _list_audited_of_module(name, item.modules) for name in item.modules}}


def _list_audited_of_module(name: str, modules: Mapping[str, Any]) -> dict[str, Any]:
    return _list_audited_of(kinds.find_module_type(name), modules[name]) if name in modules else {}


def _list_audited_of(stored: type[Stored], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the audited fields of a record. Raises MalformedRecord."""
    try:
        return stored.of(record).audited_fields()
    except ValueError:  # events show the fingerprint of a key, and a malformed key has no fingerprint
        raise MalformedRecord(stored.__name__, "", "cannot be described") from None
