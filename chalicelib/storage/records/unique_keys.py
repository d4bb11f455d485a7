"""Unique keys: values, such as a domain, that only one item in the service can have. Each has a separate record.

Each unique key has a separate partition key `scope`, so that DynamoDB distributes them over all partitions. The
transaction that writes an item writes its unique keys. When the item that holds a key has expired, the next item that
wants the key takes it over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any, Literal

from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write

ID = "claim"  # the id of every unique key's record


@dataclass(frozen=True)
class UniqueKey:
    """A value of the field `kind` that only one item can have. The key's record also stores the `attributes`.

    `field` is the dotted path of the value in the request, if it differs from `kind`. An item with the same `successor`
    as the current owner takes the key at once, even if the owner is live. `expires` is the Unix second at which the
    key's record expires with the item, or None. `hold` is for the kinds in `shared_keys`. With "alone", the item
    becomes the exclusive owner. With "together", it shares the key with other items of its account. With "over", it
    becomes the exclusive owner even if others share the key.
    """

    kind: str
    value: str
    attributes: Mapping[str, Any] = default(default_factory=dict, repr=False, compare=False)
    field: str = default(default="", compare=False)
    successor: str = default(default="", compare=False)
    hold: Literal["alone", "together", "over"] = default(default="alone", compare=False)
    expires: int | None = default(default=None, compare=False)

    @property
    def scope(self) -> str:
        return f"{self.kind}#{self.value}"


class Taken(Exception):
    """A unique key is taken: another item holds it. `by` is the partition key of the other item, or "" if unknown."""

    def __init__(self, key: UniqueKey, *, by: str = "") -> None:
        super().__init__(key.kind)
        self.key, self.by = key, by


@dataclass(frozen=True)
class KeyOwner:
    """The item that owns a unique key, and the stored `successor`. `scope` is "" if 1.x wrote the key's record."""

    scope: str
    id: str
    successor: str


def find_owner(key: UniqueKey) -> KeyOwner | None:
    """Return the item that owns a unique key. The item may have expired. Return None if no item owns the key.

    Raises aws.Unavailable.
    """
    record = dynamodb.get(key.scope, ID)
    return KeyOwner(record.get("home", ""), record.get("holder", ""), record.get("successor", "")) if record else None


def take(key: UniqueKey, scope: str, id: str, *, after: KeyOwner | None = None) -> Write:
    """Return the write with which an item takes a unique key. It fails with Taken if another item holds the key.

    The item `after` is an exception: if it holds the key, the write takes the key from it.
    """
    record = {"scope": key.scope, "id": ID, "body": dict(key.attributes), "holder": id, "home": scope, "revision": 1}
    free = Condition("attribute_not_exists(#id) OR #holder = :holder", {"holder": id})
    if after:
        free = Condition(f"{free.text} OR #holder = :before", {**free.values, "before": after.id})
    optional = {"successor": key.successor or None, "expires": key.expires}
    present = {name: value for name, value in optional.items() if value is not None}
    return Write.put({**record, **present}, free, Taken(key))


def change(key: UniqueKey, owner_id: str) -> Write:
    """Return the write that sets the attributes of a unique key. It fails if another item owns it."""
    sets = {f"body.{name}": value for name, value in key.attributes.items()}
    return Write.update(key.scope, ID, _require_owner(owner_id), sets=sets, adds={"revision": 1})


def release(key: UniqueKey, owner_id: str) -> Write:
    """Return the write that removes the record of a unique key. It fails if another item owns it."""
    return Write.delete(key.scope, ID, _require_owner(owner_id))


def _require_owner(owner_id: str) -> Condition:
    return Condition("#holder = :holder", {"holder": owner_id})
