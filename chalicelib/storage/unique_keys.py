"""Unique keys: values that one item holds for itself in the whole service, each a record beside the item's own.

A unique key has a scope of its own, so that they spread over all partitions. Every write of one is part of a
transaction. A key does not outlive a holder that has expired: who comes next takes it over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any, Literal

from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Write

ID = "claim"  # of every record of a unique key


@dataclass(frozen=True)
class UniqueKey:
    """A value of the field `kind` that one item holds for itself, and attributes to read together with it.

    `field` is the dotted path of the value in what the caller sent, where that is not the kind itself. An item whose
    key names the same `successor` as the holder's takes it over at once.

    `hold` is how the item holds one of a kind that is shared (`shared_keys`): alone, together with others of its
    account, or over whoever holds it together.
    """

    kind: str
    value: str
    attributes: Mapping[str, Any] = default(default_factory=dict, repr=False, compare=False)
    field: str = default(default="", compare=False)
    successor: str = default(default="", compare=False)
    hold: Literal["alone", "together", "over"] = default(default="alone", compare=False)

    @property
    def scope(self) -> str:
        return f"{self.kind}#{self.value}"


class Taken(Exception):
    """Another item holds the unique key; `by` is its scope, where that is known."""

    def __init__(self, key: UniqueKey, *, by: str = "") -> None:
        super().__init__(key.kind)
        self.key, self.by = key, by


@dataclass(frozen=True)
class Holder:
    """The item that holds a key, and its `successor`. `scope` is "" where a record of the first edition lacks it."""

    scope: str
    id: str
    successor: str


def holder(key: UniqueKey) -> Holder | None:
    """Return the item that holds the key, live or expired, or None. Raises aws.Unavailable."""
    record = dynamodb.get(key.scope, ID)
    return Holder(record.get("home", ""), record.get("holder", ""), record.get("successor", "")) if record else None


def take(key: UniqueKey, scope: str, id: str, *, after: Holder | None = None) -> Write:
    """Return the write that takes the key for an item; Taken, if another item holds it, except `after`."""
    record = {"scope": key.scope, "id": ID, "body": dict(key.attributes), "holder": id, "home": scope, "revision": 1}
    ours = Condition("attribute_not_exists(#id) OR #holder = :holder", {"holder": id})
    if after:
        ours = Condition(f"{ours.text} OR #holder = :before", {**ours.values, "before": after.id})
    successor = {"successor": key.successor} if key.successor else {}
    return Write.put({**record, **successor}, ours, Taken(key))


def change(key: UniqueKey, holder: str) -> Write:
    """Return the write that sets the key's attributes; it fails if another item holds the key."""
    sets = {f"body.{name}": value for name, value in key.attributes.items()}
    return Write.update(key.scope, ID, _held_by(holder), sets=sets, adds={"revision": 1})


def release(key: UniqueKey, holder: str) -> Write:
    """Return the write that releases the key; it fails if another item holds it."""
    return Write.delete(key.scope, ID, _held_by(holder))


def _held_by(holder: str) -> Condition:
    return Condition("#holder = :holder", {"holder": holder})
