"""Bonds: what an item holds and points at, its claims and pointers, and the writes that change them with the item."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chalicelib.storage import claims, items, pointers
from chalicelib.storage.claims import Taken
from chalicelib.storage.dynamodb import Part
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Dangling, Pointer

MOST = 98  # of an item, and that one change touches: a transaction holds 100 actions, two of them for the item itself
Write = tuple[Part, Exception | None]  # and what it means when its condition fails, None: that the item has changed


class TooMany(Exception):
    """An item would have, or a change of it would touch, more bonds than one transaction can; `field` names them."""

    def __init__(self, points: Iterable[Pointer]) -> None:
        super().__init__()
        self.field = next((pointer.field for pointer in points if pointer.field), "")


def attributes(item: Item) -> dict[str, Any]:
    """The bonds as attributes of the item's record, None for none."""
    bonds = {"claims": items.claims_record(item.claims), "points": pointers.to_record(item.points)}
    return {name: value or None for name, value in bonds.items()}


def repointed(before: Iterable[Pointer], points: Mapping[str, tuple[Pointer, ...]]) -> tuple[Pointer, ...]:
    """The pointers of an item, where some of its parts are to point at something else."""
    kept = (pointer for pointer in before if pointer.part not in points)
    return (*kept, *(pointer for new in points.values() for pointer in new))


def writes(before: Item, after: Item) -> list[Write]:
    """The writes that turn the bonds of an item into those it is to have. Raises TooMany."""
    changes = [*_claims(before, after), *_pointers(before, after)]
    if max(len(changes), len(after.claims) + len(after.points)) > MOST:
        raise TooMany(after.points)
    return changes


def _claims(before: Item, after: Item) -> Iterator[Write]:
    had = {(claim.kind, claim.value) for claim in before.claims}
    kept = {(claim.kind, claim.value) for claim in after.claims}
    for claim in after.claims:
        if (claim.kind, claim.value) not in had:
            yield claims.taking(claim, after.id), Taken(claim)
    for claim in before.claims:
        if (claim.kind, claim.value) not in kept:
            yield claims.releasing(claim, after.id), None


def _pointers(before: Item, after: Item) -> Iterator[Write]:
    for new in pointers.by_target(set(after.points) - set(before.points)):
        yield pointers.recording(new, after.scope, after.id), Dangling(new[0])
    for old in pointers.by_target(set(before.points) - set(after.points)):
        yield pointers.erasing(old, after.scope, after.id), None
