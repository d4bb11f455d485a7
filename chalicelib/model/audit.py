"""Audit events: who changed what, when and from where. Each is written in the transaction of the change it tells of.

An event tells what `details` says, never a secret or free text, and nobody can change one. `changes` makes them. An
account has two partitions of them: the edge puts its own into one, and may do nothing to the other.
"""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.model.details import Details
from chalicelib.model.records import Created
from chalicelib.storage import table
from chalicelib.storage.items import Item

Verb = Literal["create", "update", "replace", "delete"]

_INDEX = "by-resource"  # of the table: events alone stand in it, by their resource
OF_THE_EDGE = f"{kinds.AUDIT_EVENTS.path}/edge"
_MAX_NAME = 255  # bytes
_DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class Actor:
    """Who acts: an API key and its owner, the operator or the edge. `name` is that of the owner, or of the operator."""

    type: Literal["api_key", "operator", "edge"]
    key_id: str = ""
    owner_id: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Event(Created):
    """What is stored of an event. `resource_path` is the address of the resource or module, "" where it has none.

    `revision` is that of the resource after the change, None where an earlier edition wrote the event.
    """

    action: str
    resource_id: str
    resource_path: str
    actor: Mapping[str, str]
    operation_id: str = ""
    source_ip: str = ""
    revision: int | None = None
    changed: list[str] = field(default_factory=list)
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Trail:
    """One operation of an actor: what each of its audit events says of who acted and from where."""

    actor: Actor
    operation_id: str = ""
    source_ip: str = ""

    def identified(self) -> "Trail":
        """Return the trail; of the operator, with who runs this process."""
        return _person.get() or _as(_user()) if self == OPERATOR else self


OPERATOR = Trail(Actor("operator"))
EDGE = Trail(Actor("edge"))
_person: ContextVar[Trail | None] = ContextVar("person", default=None)


@contextmanager
def operated_by(name: str) -> Iterator[None]:
    """Have the operator's changes in this block be one operation of a person of that name, "" for the system's user."""
    before = _person.set(_as(name or _user()))
    try:
        yield
    finally:
        _person.reset(before)


def _as(name: str) -> Trail:
    """Return a new operation of the operator, on this host."""
    actor = Actor("operator", name=_clean(name))
    return Trail(actor, ids.new("op"), _clean(socket.gethostname()))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the system has no name for it, as in a container
        return str(os.getuid())


def _clean(text: str) -> str:
    printable = "".join(sign for sign in text if sign.isprintable())
    return printable.encode(errors="replace")[:_MAX_NAME].decode(errors="ignore")


def event(by: Trail, item: Item, verb: Verb, module: str, changed: Sequence[str], details: Details) -> Item:
    """Return the event of a change of an item, given its state after it, or of a module of the item.

    It is kept for AUDIT_DAYS (400).
    """
    id, by = ids.new(kinds.AUDIT_EVENTS.prefix), by.identified()
    created_at, kept_for = ids.created_at(id), int(os.environ.get("AUDIT_DAYS") or 400) * _DAY
    account, _, path = item.scope.partition("#")
    account = account if path else item.id  # an account is a resource of its own
    told = Event(
        created_at=clock.rfc3339(created_at),
        action=".".join(filter(None, (kinds.of(item.id).noun, module, verb))),
        resource_id=item.id,
        resource_path="/".join(filter(None, (path, item.id, module))) if path else "",
        actor=asdict(by.actor),
        operation_id=by.operation_id,
        source_ip=by.source_ip,
        revision=item.revision,
        changed=list(changed),
        details=dict(details),
    )
    own = OF_THE_EDGE if by.actor.type == "edge" else kinds.AUDIT_EVENTS.path
    expires = int(created_at.timestamp()) + kept_for
    return Item(f"{account}#{own}", id, told.to_record(), expires=expires, indexed=f"{account}#{item.id}")


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
    return f"{account}#{kinds.AUDIT_EVENTS.path}", f"{account}#{OF_THE_EDGE}"


def _trusted(event: Item) -> Item:
    """Return an event; one that the edge could have written names nobody else as its actor.

    Its time is that of its id, or it would end a list that asks for what came after a time. It leads nowhere but into
    the API, whose address its path is put behind.
    """
    if event.path != OF_THE_EDGE:
        return event
    known = {
        "created_at": clock.rfc3339(ids.created_at(event.id)),
        "resource_path": path if (path := event.body["resource_path"]).startswith("/") else "",
        "actor": asdict(EDGE.actor),
        "operation_id": "",
        "source_ip": "",
    }
    return replace(event, body={**event.body, **known})
