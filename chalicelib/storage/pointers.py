"""Pointers: that one item names another. The target knows who points at it, so that it is not deleted meanwhile.

Every record of one is part of the transaction that writes the item which points.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Part

MOST = 1000  # holders of one target: they stand in its record, which DynamoDB limits to 400 KB

_BODY = "body"  # what stands in a record for the part ""


@dataclass(frozen=True, order=True)
class Pointer:
    """What an item points at, and the part of the item that does ("" for its body)."""

    part: str
    scope: str
    id: str
    field: str = field(default="", compare=False)  # that names the target in what the caller sent

    @property
    def target(self) -> tuple[str, str]:
        """The scope and id of what is pointed at."""
        return self.scope, self.id


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


def by_target(pointers: Iterable[Pointer]) -> list[list[Pointer]]:
    """The pointers, those at one target together: a transaction holds one action for each record."""
    targets = groupby(sorted(pointers, key=lambda pointer: pointer.target), key=lambda pointer: pointer.target)
    return [list(group) for _, group in targets]


def recording(pointers: list[Pointer], scope: str, id: str) -> Part:
    """Telling a target that parts of the item point at it; fails when there is no target."""
    free = Condition(
        "attribute_exists(#body) AND (attribute_not_exists(#pointed_by) OR size(#pointed_by) < :most)", {"most": MOST}
    )
    return dynamodb.adding(*pointers[0].target, "pointed_by", _holders(pointers, scope, id), free)


def erasing(pointers: list[Pointer], scope: str, id: str) -> Part:
    """Telling a target that parts of the item point at it no more."""
    return dynamodb.removing(*pointers[0].target, "pointed_by", _holders(pointers, scope, id))


def from_record(record: Mapping[str, list[list[str]]]) -> tuple[Pointer, ...]:
    """The pointers of an item, as `to_record` wrote them."""
    return tuple(
        Pointer("" if part == _BODY else part, *target) for part, targets in record.items() for target in targets
    )


def to_record(pointers: Iterable[Pointer]) -> dict[str, list[list[str]]]:
    """Pointers as they stand in the record of the item that points: the targets by part."""
    record: dict[str, list[list[str]]] = {}
    for pointer in sorted(pointers):
        record.setdefault(pointer.part or _BODY, []).append([pointer.scope, pointer.id])
    return record


def _holders(pointers: list[Pointer], scope: str, id: str) -> set[str]:
    path = scope.partition("#")[2]  # the account goes without saying
    return {f"{path}/{id}/{pointer.part}".rstrip("/") for pointer in pointers}
