"""Audit events: who changed what, when and from where. Each is written in the transaction of the change it tells of.

An event holds names, never values, and nobody can change one. It is kept for AUDIT_DAYS (400). An account has two
partitions of them: the edge puts its own into one, and may do nothing to the other.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from chalicelib.storage.table import Also

Verb = Literal["create", "update", "replace", "delete"]
Details = Callable[[Item], Mapping[str, Any]]

_INDEX = "by-resource"  # of the table: events alone stand in it, by their resource
_OF_THE_EDGE = f"{kinds.AUDIT_EVENTS.path}/edge"
_DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class Actor:
    """Who acts: an API key and its owner, the operator or the edge."""

    type: Literal["api_key", "operator", "edge"]
    key_id: str = ""
    owner_id: str = ""


@dataclass(frozen=True)
class Trail:
    """One operation of an actor: what each of its audit events says of who acted and from where."""

    actor: Actor
    operation_id: str = ""
    source_ip: str = ""

    def made(self, item: Item, details: Mapping[str, Any] | None = None) -> Item:
        """Return the event of an item that is created."""
        return self._event(ids.new(kinds.AUDIT_EVENTS.prefix), item, "create", details=details or {})

    def telling(self, verb: Verb, *, module: str = "", details: Details = lambda item: {}) -> Also:
        """Return the function by which `storage.table` makes the event of a change: with one id in every try."""
        id = ids.new(kinds.AUDIT_EVENTS.prefix)

        def tell(before: Item, after: Item) -> Sequence[Item]:
            changed = _changed(before, after) if verb == "update" else []
            return (self._event(id, after, verb, module=module, changed=changed, details=details(after)),)

        return tell

    def _event(
        self,
        id: str,
        item: Item,
        verb: Verb,
        *,
        module: str = "",
        changed: Sequence[str] = (),
        details: Mapping[str, Any],
    ) -> Item:
        path = f"{item.path}/{item.id}" if item.path else ""
        body = {
            "created_at": clock.rfc3339(ids.created_at(id)),
            "action": ".".join(filter(None, (kinds.of(item.id).noun, module, verb))),
            "resource_id": item.id,
            "resource_path": f"{path}/{module}" if module and path else path,
            "actor": asdict(self.actor),
            "operation_id": self.operation_id,
            "source_ip": self.source_ip,
            "changed": list(changed),
            "details": dict(details),
        }
        account = item.account if item.path else item.id  # an account is a resource of its own
        everybody, edge = _scopes(account)
        scope = edge if self.actor.type == "edge" else everybody
        return Item(scope, id, body, expires=items.now() + _kept_for(), indexed=f"{account}#{item.id}")


OPERATOR = Trail(Actor("operator"))
EDGE = Trail(Actor("edge"))


def read(account: str, id: str) -> Item | None:
    """Return an event of an account, or None. Raises aws.Unavailable."""
    found = (table.read(scope, id) for scope in _scopes(account))
    return next((_trusted(event) for event in found if event), None)


def page(account: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` events of an account, newest first, and whether there are more.

    Raises aws.Unavailable.
    """
    pages = [table.page(scope, before=before, count=count) for scope in _scopes(account)]
    # Beyond the end of a page that goes on, what the other page has may not be the next.
    reached = max((found[-1].id for found, has_more in pages if has_more), default="")
    merged = sorted((it for found, _ in pages for it in found if it.id >= reached), key=lambda it: it.id, reverse=True)
    return [_trusted(event) for event in merged[:count]], bool(reached) or len(merged) > count


def page_of_resource(account: str, id: str, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` events of a resource, as `page` does; what is a second old may not be among them."""
    while True:
        found, has_more = table.indexed(_INDEX, f"{account}#{id}", before=before, count=count)
        own = [_trusted(event) for event in found if event.scope in _scopes(account)]  # not of a forged index key
        if own or not has_more:
            return own, has_more
        before = found[-1].id


def _scopes(account: str) -> tuple[str, str]:
    """Return where the events of an account are kept: of everybody else, of the edge."""
    return items.scope(account, kinds.AUDIT_EVENTS.path), items.scope(account, _OF_THE_EDGE)


def _trusted(event: Item) -> Item:
    """Return an event; one that the edge could have written names nobody else as its actor."""
    if event.path != _OF_THE_EDGE:
        return event
    return replace(event, body={**event.body, "actor": asdict(EDGE.actor), "operation_id": "", "source_ip": ""})


def _changed(before: Item, after: Item) -> list[str]:
    """Return the names of the fields and modules that differ."""
    states = [{**item.body, **item.modules} for item in (before, after)]
    old, new = states
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _kept_for() -> int:
    """Return for how many seconds an event is kept."""
    return int(os.environ.get("AUDIT_DAYS") or 400) * _DAY
