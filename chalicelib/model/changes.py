"""Changes: each holds one transaction, and every write that anybody is to know of is one.

What a change is of comes with its audit event, its revision, the condition of its request (`If-Match`) and its
idempotency key, whoever makes it. What is written with every change has its one place in `commit`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.model.audit import OF_THE_EDGE, Event, Trail, Verb
from chalicelib.model.idempotency import Request
from chalicelib.storage import change_log, items, table, writes
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.writes import Place

_NONE: Mapping[str, Any] = {}
_DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class Change:
    """One change of an actor: all that is put, changed and removed with it, or nothing. Each method adds to it.

    `check` raises where the present state of what is changed is not the one that was asked for; `request` is what it
    stands for under an idempotency key, `item` the state after it of what it is of.
    """

    by: Trail
    check: Callable[[Item], None] | None = None
    request: Request | None = None
    item: Item | None = None
    once: bool = False
    first: tuple[Write, ...] = ()
    own: tuple[Write, ...] = ()
    events: tuple[Item, ...] = ()
    heirs: tuple[Item, ...] = ()

    def put(self, item: Item, *, details: Mapping[str, Any] = _NONE, once: bool = False) -> "Change":
        """Make an item; `once` says that the response shows of it what no other will."""
        own, heirs = (*self.own, *writes.put(item, _holder(item))), (*self.heirs, item)
        return replace(self._told(item, "create", details=details), own=own, once=self.once or once, heirs=heirs)

    def rewrite(
        self, before: Item, edit: Callable[[Item], Item], *, verb: Verb = "update", module: str = ""
    ) -> "Change":
        """Turn an item, or a module of it, into what `edit` makes of it. Where nothing differs, nothing is written."""
        self.hold(before)
        after = edit(before)
        if after == before:
            return replace(self, item=self.item or before)
        after = replace(after, revision=items.following(before))
        changed = _differing(before, after) if verb == "update" else []
        own = (*self.own, *writes.rewrite(before, after, _holder(before)))
        return replace(self._told(after, verb, module, changed), own=own)

    def remove(self, item: Item, *, details: Mapping[str, Any] = _NONE) -> "Change":
        """Remove an item. Raises InUse when something refers to it."""
        self.hold(item)
        own = (*self.own, *writes.remove(item, _holder(item)))
        return replace(self._told(item, "delete", details=details), own=own)

    def end(self, item: Item) -> "Change":
        """Remove an item whose lease has ended."""
        return replace(self._told(item, "delete"), own=(*self.own, *writes.end(item)))

    def also(self, *more: Write) -> "Change":
        """Do other writes too, of which no event tells by itself, and hold what they require."""
        return replace(self, first=(*self.first, *more))

    def commit(self) -> Item | None:
        """Do all or nothing; return what it is of, as it is then.

        Raises Overtaken where that has changed since it was read, Repeated, or what the failing of a write means;
        aws.Unavailable.
        """
        if not (self.own or self.first):
            return self.item
        kept = [self.request.keep(self.item, once=self.once)] if self.request and self.item else []
        told = [Write.put(event.to_record()) for event in self.events]
        proof = (self.events[0].scope, self.events[0].id) if self.events else None
        log = change_log.telling([*self.first, *self.own])
        writes.commit([*kept, *self.first, *self.own, *told, *log], proof=proof, heirs=self.heirs)
        return self.item

    def hold(self, item: Item) -> None:
        """Raise where the item is not in the state that was asked for."""
        if self.check and self.item is None:  # else it goes with what was checked
            self.check(item)

    def _told(
        self, item: Item, verb: Verb, module: str = "", changed: Sequence[str] = (), details: Mapping[str, Any] = _NONE
    ) -> "Change":
        """Return the change with its event of an item, or of a module of it; what is the edge's own is told nobody."""
        if _is_of_the_edge(item):
            return replace(self, item=self.item or item)
        id, by = ids.new(kinds.AUDIT_EVENTS.prefix), self.by
        created_at, kept_for = ids.created_at(id), int(os.environ.get("AUDIT_DAYS") or 400) * _DAY
        account, _, path = item.scope.partition("#")
        account = account if path else item.id  # an account is a resource of its own
        event = Event(
            created_at=clock.rfc3339(created_at),
            action=".".join(filter(None, (kinds.of(item.id).noun, module, verb))),
            resource_id=item.id,
            resource_path="/".join(filter(None, (path, item.id, module))) if path else "",
            actor=asdict(by.actor),
            operation_id=by.operation_id,
            source_ip=by.source_ip,
            changed=list(changed),
            details=dict(details),
        ).to_record()
        expires, indexed = int(created_at.timestamp()) + kept_for, f"{account}#{item.id}"
        own = OF_THE_EDGE if by.actor.type == "edge" else kinds.AUDIT_EVENTS.path
        told = Item(f"{account}#{own}", id, event, expires=expires, indexed=indexed)
        return replace(self, item=self.item or item, events=(*self.events, told))


def rewrite(change: Change, scope: str, id: str, edit: Callable[[Item], Item]) -> Item | None:
    """Replace an item by what `edit` makes of it, which is called again when another writer came first, and may raise.

    Returns the item as it is then, or None when there is none. Raises what `commit` does.
    """

    def attempt() -> Item | None:
        before = table.read(scope, id)
        return change.rewrite(before, edit).commit() if before else None

    return writes.retried(attempt)


def delete(change: Change, scope: str, id: str) -> bool:
    """Remove an item; False when there is none. Raises InUse when something refers to it, and what `commit` does."""

    def attempt() -> bool:
        item = table.read(scope, id)
        if item:
            change.remove(item).commit()
        return item is not None

    return writes.retried(attempt)


def _is_of_the_edge(item: Item) -> bool:
    return item.scope.startswith(f"{kinds.EDGE}#")


def _holder(item: Item) -> Place | None:
    """Return the place of the item that shows this one, as an edge shows its routes; None for others."""
    is_shown = item.body and not _is_of_the_edge(item) and kinds.of(item.id).is_shown_in_parent
    return items.above(item.scope) if is_shown else None  # one that was never made is shown nowhere


def _differing(before: Item, after: Item) -> list[str]:
    """Return the names of the fields and modules that differ."""
    old, new = ({**item.body, **item.modules} for item in (before, after))
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
