"""Unique keys: values that one item holds for itself in the whole service, each a record beside the item's own.

A unique key has a scope of its own, so that they spread over all partitions. Every write of one is part of a
transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any

from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Write

ID = "claim"  # of every record of a unique key


@dataclass(frozen=True)
class UniqueKey:
    """A value of the field `kind` that one item holds for itself, and attributes to read together with it.

    `field` is the dotted path of the value in what the caller sent, where that is not the kind itself.
    """

    kind: str
    value: str
    attributes: Mapping[str, Any] = default(default_factory=dict, repr=False, compare=False)
    field: str = default(default="", compare=False)

    @property
    def scope(self) -> str:
        return f"{self.kind}#{self.value}"


class Taken(Exception):
    """Another item holds the unique key."""

    def __init__(self, key: UniqueKey) -> None:
        super().__init__(key.kind)
        self.key = key


def taking(key: UniqueKey, holder: str, schema: int) -> Write:
    """Take the key for an item, unless another holds it."""
    record = {"scope": key.scope, "id": ID, "body": dict(key.attributes), "holder": holder}
    free = Condition("attribute_not_exists(#id) OR #holder = :holder", {"holder": holder})
    return dynamodb.putting({**record, "revision": 1, "schema": schema}, free)


def changing(key: UniqueKey, holder: str) -> Write:
    """Set the key's attributes, which the item that holds it repeats there."""
    sets = {f"body.{name}": value for name, value in key.attributes.items()}
    return dynamodb.updating(key.scope, ID, _held_by(holder), sets=sets, adds={"revision": 1})


def releasing(key: UniqueKey, holder: str) -> Write:
    """Give the key up."""
    return dynamodb.deleting(key.scope, ID, _held_by(holder))


def _held_by(holder: str) -> Condition:
    return Condition("#holder = :holder", {"holder": holder})
