"""Changes: each is one transaction, and every write of an item is one, but for those that have no audit event.

Whoever makes a change, it comes with its audit event, the new revision, the condition of the request (`If-Match`) and
the idempotency key. `commit` is the one place for records that are written with every change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib import clock
from chalicelib.model import (
    accounts,
    audit,
    details,
    forms,
    histories,
    kinds,
    listening,
    name_counts,
    shards,
    tunnel_ends,
)
from chalicelib.model.audit import Trail, Verb
from chalicelib.model.details import Details
from chalicelib.model.idempotency import Request
from chalicelib.model.name_counts import TooManyNames
from chalicelib.model.records import Stored
from chalicelib.storage import change_log, dynamodb, items, places, table, writes
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.dynamodb import Throttled, Write
from chalicelib.storage.items import Item
from chalicelib.storage.places import Place

_NONE: Mapping[str, Any] = {}
SUSPENDED = "suspended"  # the mark of a record that the operator has suspended
_UNTOLD = (["description"], ["metadata"], ["description", "metadata"])  # free text, of which events tell nothing


@dataclass(frozen=True)
class Change:
    """One change of an actor: all that is put, changed and removed with it, or nothing. Each method adds to it.

    `by` is who acts. `check` raises where the first item is not in the state that the request requires, `request` holds
    the idempotency key, and `item` is the first item as it is after the change. `once` says that the response shows a
    secret that no other will. The writes are those of the items (`own`), `others`, whose failing counts before theirs,
    and the records of `events`. `given_up` are written before all that, and true also where it fails. `created` are the
    items that may take over a unique key, `names` is how many more domains elsewhere the account has reserved then.
    """

    by: Trail
    check: Callable[[Item], None] | None = None
    request: Request | None = None
    item: Item | None = None
    once: bool = False
    others: tuple[Write, ...] = ()
    own: tuple[Write, ...] = ()
    events: tuple[Item, ...] = ()
    given_up: tuple[Write, ...] = ()
    created: tuple[Item, ...] = ()
    names: int = 0

    def put(self, item: Item, *, more: Details = _NONE, once: bool = False) -> "Change":
        """Create an item; `once` says that the response shows a secret of it that no other will.

        `more` are details for its event beside those of the stored value.
        """
        own = (*self.own, *writes.put(item, _holder(item)), *listening.moved(None, item))
        created = (*self.created, item)
        events = self._and_event(item, "create", told=_whole(item, more))
        count = self.names + name_counts.elsewhere(item)
        first, once = self.item or item, self.once or once
        return replace(self, item=first, once=once, own=own, events=events, created=created, names=count)

    def rewrite(
        self, before: Item, edit: Callable[[Item], Item], *, verb: Verb = "update", module: str = ""
    ) -> "Change":
        """Replace an item, or a module of it, by the result of `edit`. Where nothing differs, nothing is written."""
        self.hold(before)
        after = edit(before)
        if after == before:
            return replace(self, item=self.item or before)
        after = replace(after, revision=items.following(before))
        changed = details.differing(*_parts(before, after, module))
        told = {} if changed in _UNTOLD else _between(before, after, module)
        own = (*self.own, *writes.rewrite(before, after, _holder(before)), *listening.moved(before, after))
        created = (*self.created, after)
        count = self.names + name_counts.elsewhere(after) - name_counts.elsewhere(before)
        events = self._and_event(after, verb, module, changed, told)
        given_up = (*self.given_up, *histories.given_up(before, after))
        first = self.item or after
        return replace(self, item=first, own=own, events=events, given_up=given_up, created=created, names=count)

    def remove(self, item: Item, *, more: Details = _NONE) -> "Change":
        """Remove an item, also a malformed one. `more` is as of `put`. Raises InUse when something refers to it."""
        self.hold(item)
        item = _checked(item)
        own = (*self.own, *writes.remove(item, _holder(item)), *listening.moved(item, None))
        gone = replace(item, revision=item.revision + 1)
        events = self._and_event(gone, "delete", told=_whole(item, more))
        count = self.names - name_counts.elsewhere(item)
        given_up = (*self.given_up, *histories.given_up(item, None))
        return replace(self, item=self.item or item, own=own, events=events, given_up=given_up, names=count)

    def end(self, item: Item, *, more: Details = _NONE) -> "Change":
        """Remove an item whose lease has ended. `more` is as of `put`."""
        item = _checked(item)
        gone = replace(item, revision=item.revision + 1)
        events = self._and_event(gone, "delete", told=_whole(item, more))
        return replace(self, item=self.item or gone, own=(*self.own, *writes.end(item)), events=events)

    def also(self, *more: Write) -> "Change":
        """Add other writes and their conditions, which have no event of their own."""
        return replace(self, others=(*self.others, *more))

    def commit(self) -> Item | None:
        """Do all or nothing; return the first item, as it is then.

        Raises Overtaken where an item has changed since it was read, Repeated where the idempotency key was used
        meanwhile, and the `failing` of a write; aws.Unavailable.
        """
        if not (self.own or self.others):
            return self.item
        if self.by != audit.EDGE and self.item and any(map(shards.leads_to_the_edge, self.created)):
            shards.reach(self.item.account)
        if self.given_up:
            dynamodb.transact(self.given_up)
        kept = [self.request.keep(self.item, once=self.once)] if self.request and self.item else []
        account, counts = self.item.account if self.item else "", name_counts.of(self.own, self.names)
        name_counts.settle(account, counts)
        own = [*kept, *self.others, *self.own, *name_counts.add(account, counts)]
        log = change_log.entries([*self.others, *self.own])
        try:
            self._commit(own, self.events, log)
        except Throttled as hot:
            return self._reshard(hot).commit()
        except TooManyNames:
            if not name_counts.make_room(account, counts):
                raise
            return self.commit()
        return self.item

    def _commit(self, own: Sequence[Write], events: Sequence[Item], log: Sequence[Write]) -> None:
        told = [Write.put(event.to_record()) for event in events]
        proof = (events[0].scope, events[0].id) if events else None
        writes.commit([*own, *told, *log], proof=proof, created=self.created, ended=_ended)

    def _reshard(self, hot: Throttled) -> "Change":
        """Return the change with what the store turned away in other shards. Raises Throttled where it has none."""
        if places.edition() < 3:
            raise hot
        own = writes.reshard(self.own, hot.scopes)
        are_hot = any(event.scope in hot.scopes and shards.is_first(event) for event in self.events)
        if own is None and not are_hot:
            raise hot
        events = tuple(map(audit.spread, self.events)) if are_hot else self.events
        return replace(self, own=self.own if own is None else own, events=events)

    def hold(self, item: Item) -> None:
        """Raise where the first item of the change is not in the state that the request requires."""
        if self.check and self.item is None:  # a further item goes with the one that was checked
            self.check(item)

    def _and_event(
        self, item: Item, verb: Verb, module: str = "", changed: Sequence[str] = (), told: Details = _NONE
    ) -> tuple[Item, ...]:
        """Return the events with that of an item, or of a module of it; records of the edge itself have none."""
        if kinds.is_of_the_edge(item.scope):
            return self.events
        return (*self.events, audit.event(_named(self.by, item), item, verb, module, changed, told))


def rewrite(change: Change, scope: str, id: str, edit: Callable[[Item], Item]) -> Item | None:
    """Replace an item by the result of `edit`, which may raise, and is called again where another writer came first.

    Returns the item as it is then, or None when there is none. Raises what `commit` does.
    """

    def attempt() -> Item | None:
        before = table.read(scope, id)
        return change.rewrite(before, edit).commit() if before else None

    return writes.retried(attempt)


def delete(change: Change, scope: str, id: str, *, more: Callable[[Item], Details] = lambda _: _NONE) -> bool:
    """Remove an item, also a malformed one; False when there is none. `more` returns further details for its event.

    Raises InUse when something refers to it, and what `commit` does.
    """

    def attempt() -> bool:
        item = table.find(scope, id)
        if item:
            change.remove(item, more=more(item)).commit()
        return item is not None

    return writes.retried(attempt)


def _ended(tunnel: Item) -> list[Write]:
    """Return the writes that tell of the end of a tunnel whose name another item takes over."""
    if not tunnel_ends.is_tunnel(tunnel):
        return []
    end = min(tunnel_ends.until(tunnel), clock.seconds())
    told = _whole(tunnel, tunnel_ends.details(tunnel, end))
    gone = replace(tunnel, revision=tunnel.revision + 1)
    event = audit.event(audit.EDGE, gone, "delete", "", (), told)
    return [Write.put(event.to_record()), *tunnel_ends.kept(tunnel, end), *tunnel_ends.uncarried(tunnel)]


def _named(by: Trail, item: Item) -> Trail:
    """Return the trail with the name of the owner, which a key of earlier editions lacks. Raises aws.Unavailable."""
    if by.actor.type != "api_key" or by.actor.name:
        return by
    owner = accounts.owner(item.account, by.actor.owner_id)
    return replace(by, actor=replace(by.actor, name=owner.name if owner else ""))


def _holder(item: Item) -> Place | None:
    """Return the place of the item that shows this one, as an edge shows its routes; None for others."""
    is_shown = (
        (item.body or item.malformed) and not kinds.is_of_the_edge(item.scope) and kinds.of(item.id).is_shown_in_parent
    )
    return items.above(item.scope) if is_shown else None  # one that was never made is shown nowhere


def _whole(item: Item, more: Details) -> Details:
    """Return the details of an item that is made or removed."""
    return {} if kinds.is_of_the_edge(item.scope) else {**details.of(_telling(item)), **more}


def _between(before: Item, after: Item, module: str) -> Details:
    """Return the details of a change of an item, or of a module of it."""
    if kinds.is_of_the_edge(before.scope):
        return {}
    if module:
        return details.between(*(_telling_of(module, item.modules) for item in (before, after)))
    return details.between(_telling(before), _telling(after))


def _checked(item: Item) -> Item:
    """Return an item; without its body if it or a module cannot be decoded."""
    if item.malformed or kinds.is_of_the_edge(item.scope):
        return item
    try:
        _telling(item)
    except MalformedRecord as malformed:
        return item.without_body(malformed)
    return item


def _parts(before: Item, after: Item, module: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of what changes, before and after: of a module, else of the fields and all modules."""
    return (item.modules.get(module, {}) if module else {**item.body, **item.modules} for item in (before, after))


def _telling(item: Item) -> dict[str, Any]:
    """Return the fields of an item, and of its modules by name, that events tell; and that it is suspended."""
    told = _told(forms.of(kinds.of(item.id)), item.body) if item.body else {}
    suspended = {SUSPENDED: True} if item.unseen.get(SUSPENDED) else {}
    return {**told, **suspended, **{name: _telling_of(name, item.modules) for name in item.modules}}


def _telling_of(module: str, modules: Mapping[str, Any]) -> dict[str, Any]:
    return _told(forms.of_module(module), modules[module]) if module in modules else {}


def _told(form: type[Stored], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that its audit events show. Raises MalformedRecord."""
    try:
        return form.of(record).told()
    except ValueError:  # of a fingerprint of what is no key
        raise MalformedRecord(form.__name__, "", "cannot be described") from None
