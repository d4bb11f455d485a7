"""Pointers: that one item names another. The target knows who points at it, so that it is not deleted meanwhile.

Every record of one is part of the transaction that writes the item which points.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Part

MOST = 1000  # holders of one target: they stand in its record, which DynamoDB limits to 400 KB


@dataclass(frozen=True, order=True)
class Pointer:
    """What an item points at, and the part of the item that does ("" for its body)."""

    part: str
    scope: str
    id: str
    field: str = field(default="", compare=False)  # that names the target in what the caller sent


class Dangling(Exception):
    """There is no target under the pointer."""

    def __init__(self, pointer: Pointer) -> None:
        super().__init__(pointer.id)
        self.pointer = pointer


class Crowded(Exception):
    """The target has as many holders as it can bear."""

    def __init__(self, pointer: Pointer) -> None:
        super().__init__(pointer.id)
        self.pointer = pointer


class Held(Exception):
    """Items point at what was to be deleted; `holders` are their paths."""

    def __init__(self, holders: Iterable[str]) -> None:
        super().__init__()
        self.holders = sorted(holders)


def recording(pointer: Pointer, scope: str, id: str) -> Part:
    """Telling the target that the item points at it; fails when there is no target."""
    free = Condition(
        "attribute_exists(#body) AND (attribute_not_exists(#pointed_by) OR size(#pointed_by) < :most)", {"most": MOST}
    )
    return dynamodb.adding(pointer.scope, pointer.id, "pointed_by", {_holder(pointer, scope, id)}, free)


def erasing(pointer: Pointer, scope: str, id: str) -> Part:
    """Telling the target that the item points at it no more."""
    return dynamodb.removing(pointer.scope, pointer.id, "pointed_by", {_holder(pointer, scope, id)})


def from_record(record: list[list[str]]) -> tuple[Pointer, ...]:
    """The pointers of an item, as `to_record` wrote them."""
    return tuple(Pointer(*fields) for fields in record)


def to_record(pointers: Iterable[Pointer]) -> list[Any]:
    """Pointers as they stand in the record of the item that points."""
    return [[pointer.part, pointer.scope, pointer.id] for pointer in sorted(pointers)]


def _holder(pointer: Pointer, scope: str, id: str) -> str:
    path = scope.partition("#")[2]  # the account goes without saying
    return f"{path}/{id}/{pointer.part}".rstrip("/")
