"""Audit events: who changed what, when and from where. The transaction of a change also writes its event.

An event never contains a secret, and no free text except the operator's reason. Events cannot be changed. The events
of an account are in one partition, or in more if the account is busy. The edge writes its events to a separate
partition, because it has no right to write to the other partitions.
"""

import getpass
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.model.audit import details, partitions
from chalicelib.model.audit.details import Details
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Created
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import item_keys, items
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item

Verb = Literal["create", "update", "replace", "delete", "verified", "lapsing", "lapsed"]

BY_RESOURCE, BY_ACTOR = "by-resource", "by-actor"  # indexes of the table that contain only audit events
OF_THE_EDGE = f"{kinds.AUDIT_EVENTS.path}/edge"
OF_THE_OPERATOR = f"operator#{kinds.AUDIT_EVENTS.path}"  # the partition key of events without an account
MAX_BYTES = 4096  # the most bytes of a value in an event's details; longer values become digests
_DAY = 24 * 60 * 60
_MAX_KNOWN = 10_000  # the most accounts in `_with_edge`; a full set is cleared
_with_edge: set[str] = set()  # accounts for which this process has called `let_edge_act`
_MAX_REVISION = 1 << 53  # edge events with a larger revision are skipped: some JSON readers round such numbers


@dataclass(frozen=True)
class EventActor:
    """An actor. `key_id` is the id of its API key or federated credential, `name` its owner's or operator's name."""

    type: Literal["api_key", "federated", "operator", "edge"]
    key_id: str = ""
    owner_id: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Event(Created):
    """The stored form of an event. `resource_path` is the resource's or module's path in the API, or "".

    `revision` is the resource's revision after the change, None in events of 2.0.0.
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
    """One operation of an actor: who acted, from where, and the operator's reason.

    If `actor` has no name yet, `find_name` reads the name. This call may raise aws.Unavailable.
    """

    actor: EventActor
    operation_id: str = ""
    source_ip: str = ""
    reason: str = ""
    find_name: Callable[[], str] | None = field(default=None, compare=False)

    def identify(self) -> "Trail":
        """Return the trail with the name of its actor set. Raises aws.Unavailable."""
        if self.find_name:
            return replace(self, actor=replace(self.actor, name=self.find_name()))
        return _person.get() or _start_operation(_user()) if self == OPERATOR else self


OPERATOR = Trail(EventActor("operator"))
EDGE = Trail(EventActor("edge"))
_person: ContextVar[Trail | None] = ContextVar("person", default=None)


@contextmanager
def operate_as(name: str, reason: str = "") -> Iterator[None]:
    """Attribute the operator's changes in this block to `name`, or if it is "", to the user of the operating system."""
    before = _person.set(replace(_start_operation(name or _user()), reason=details.clean(reason)))
    try:
        yield
    finally:
        _person.reset(before)


def _start_operation(name: str) -> Trail:
    """Return the trail of a new operation. The person `name` starts it as the operator on this machine."""
    actor = EventActor("operator", name=details.clean(name))
    return Trail(actor, ids.new("op"), details.clean(socket.gethostname()))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of this process has no name, for example in a container
        return str(os.getuid())


def event(
    by: Trail,
    kind: Kind,
    item: Item,
    verb: Verb,
    module: str = "",
    changed: Sequence[str] = (),
    shown: Details = MappingProxyType({}),
) -> Item:
    """Return the audit event of a change of an item or its module. `item` is the item after the change.

    `shown` becomes the event's field `details`. The event is stored for AUDIT_DAYS (400). Raises aws.Unavailable.
    """
    by, id = by.identify(), ids.new(kinds.AUDIT_EVENTS.prefix)
    moment, created_at = ids.created_at(id), ids.time_of(id)
    account, _, path = item.scope.partition("#")
    account = account if path else item.id  # without a path, the item is an account, to which the event belongs
    scope, shard = item_keys.next_item_key(f"{account}#{kinds.AUDIT_EVENTS.path}", id)
    if by.actor.type == "edge":
        scope, shard = f"{account}#{OF_THE_EDGE}", 0
    stored = Event(
        created_at=created_at,
        action=".".join(filter(None, (kind.noun, module, verb))),
        resource_id=item.id,
        resource_path="/".join(filter(None, (path, item.id, module))) if path else "",
        actor=dict(vars(by.actor)),
        operation_id=by.operation_id,
        source_ip=by.source_ip,
        revision=item.revision,
        changed=list(changed),
        details={**shown, **({"reason": by.reason} if by.reason else {})},
    )
    acted = f"{account}#{build_actor_key(by.actor.key_id or by.actor.type, shard)}"
    expires, indexed = find_expiry(moment), f"{account}#{item.id}"
    return Item(scope, id, stored.to_record(), expires=expires, indexed=indexed, acted=acted)


def reason() -> str:
    """Return the operator's reason for the changes in the current `operate_as` block."""
    return OPERATOR.identify().reason


def operator_event(action: str, subject: str) -> Write:
    """Return the write of an event about an operator's change that concerns no account."""
    id, by = ids.new(kinds.AUDIT_EVENTS.prefix), OPERATOR.identify()
    shown = Event(
        created_at=ids.time_of(id),
        action=action,
        resource_id=subject,
        resource_path="",
        actor=dict(vars(by.actor)),
        operation_id=by.operation_id,
        source_ip=by.source_ip,
        details={"reason": by.reason},
    )
    event = Item(OF_THE_OPERATOR, id, shown.to_record(), expires=find_expiry(ids.created_at(id)))
    return Write.put(event.to_record())


def find_expiry(moment: datetime) -> int:
    """Return the Unix second at which an audit record expires: AUDIT_DAYS after `moment`."""
    return int(moment.timestamp()) + audit_days() * _DAY


def audit_days() -> int:
    """Return the number of days for which events are stored."""
    return int(os.environ.get("AUDIT_DAYS") or 400)


def is_of_the_edge(event: Item) -> bool:
    """Return whether an event is in the partition to which the edge writes its events."""
    return event.path == OF_THE_EDGE


def is_event(item: Item) -> bool:
    """Return whether an item has the form of an event. The edge could also write other items to its partition."""
    try:
        event = Event.of({"actor": {}, **item.body})
    except MalformedRecord:
        return False
    return (
        kinds.AUDIT_EVENTS.has(item.id)
        and kinds.is_id(event.resource_id)
        and 0 <= (event.revision or 0) < _MAX_REVISION
        and details.are_shown(event.details)
    )


def let_edge_act(account: str) -> None:
    """Record that the edge can write events for an account, so that readers also read the edge's partition.

    Call this function before the account gets a resource for which the edge writes events, such as a tunnel. Raises
    aws.Unavailable.
    """
    if account in _with_edge:
        return
    dynamodb.do(partitions.include_edge(account))
    if len(_with_edge) >= _MAX_KNOWN:
        _with_edge.clear()
    _with_edge.add(account)


def spread(event: Item) -> Item:
    """Divide the events of a busy account into shards: several partitions.

    Return the event, which DynamoDB has throttled, with the partition key of its new shard. Raises aws.Unavailable.
    """
    partitions.spread(event.account)
    collection, actor = items.scope(event.account, kinds.AUDIT_EVENTS.path), event.body["actor"]
    scope, shard = item_keys.next_item_key(collection, event.id)
    acted = f"{event.account}#{build_actor_key(actor['key_id'] or actor['type'], shard)}"
    return replace(event, scope=scope, acted=acted)


def build_actor_key(key: str, shard: int) -> str:
    """Return an actor's key in the index by actor, for one shard. The account, which precedes it there, is omitted."""
    return f"{key}#{shard}" if shard else key


def keys_scope(account: str, owner: str) -> str:
    """Return the partition key of the list of an owner's keys. The list includes removed API keys."""
    return items.scope(account, f"{kinds.AUDIT_EVENTS.path}/keys/{owner}")


def keep_key(account: str, owner: str, key: str, *, end: int | None) -> Write:
    """Return the write that adds an API key to the list of its owner's keys, by which the owner's events are found.

    `end` is the Unix second at which the key expires, or None. The entry expires AUDIT_DAYS later, or never.
    """
    item_key = {"scope": keys_scope(account, owner), "id": ids.strip_prefix(key)}
    expires = {} if end is None else {"expires": find_expiry(clock.at(end))}
    return Write.put({**item_key, "body": {"owner_id": owner}, "revision": 1, **expires})


def details_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a created or removed resource as event details."""
    return {path: _format_value(value) for path, value in flatten(values).items()}


def details_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a change modified, under "before" and "after". Return {} if there are none."""
    old, new = flatten(before), flatten(after)
    differing = [path for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)]
    if not differing:
        return {}
    sides = (("before", old), ("after", new))
    return {name: {path: _format_value(side[path]) for path in differing if path in side} for name, side in sides}


def list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields in which two records differ."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def flatten(values: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Return the values in nested mappings, by dotted path such as `a.b`. Unset values are left out."""
    flat_values: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat_values |= flatten(value, f"{at}{name}.")
        elif value not in (None, "", b""):
            flat_values[f"{at}{name}"] = value
    return flat_values


def _format_value(value: Any) -> str | list[str]:
    if isinstance(value, bytes):
        return "(secret)"
    shown = [_text(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
    if isinstance(shown, list):
        written = json.dumps(shown)
        return shown if len(written) <= MAX_BYTES else details.digest(written)
    text = _text(shown)
    return text if len(text.encode()) <= MAX_BYTES else details.digest(text)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | int) else str(value)
