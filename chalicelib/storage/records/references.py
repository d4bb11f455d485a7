"""References from one item to another, the target. The records of both items contain the reference, so that the target
cannot be deleted.

One transaction writes both records.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from dataclasses import field as default
from itertools import groupby

from chalicelib.storage.client.dynamodb import Condition, Write

# The most items that can refer to one target. The target's record lists them, and DynamoDB limits a record to 400 KB.
MAX_REFERRERS = 1000

_BODY = "body"  # the stored name of the module "", which stands for the body of an item


@dataclass(frozen=True, order=True)
class Reference:
    """A reference from a module of an item ("" for its body) to a target.

    `field` is the request's field with the target's id. At most `max_referrers` items may refer to the target.
    """

    module: str
    scope: str
    id: str
    field: str = default(default="", compare=False)
    max_referrers: int = default(default=MAX_REFERRERS, compare=False)

    @property
    def target(self) -> tuple[str, str]:
        """Return the primary key (`scope` and `id`) of the item to which the reference refers."""
        return self.scope, self.id


class MissingTarget(Exception):
    """The item to which a reference refers does not exist."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.id)
        self.reference = reference


class TooManyReferrers(Exception):
    """The target already has `max_referrers` referrers, and cannot have more."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.id)
        self.reference = reference


class InUse(Exception):
    """An item cannot be deleted, because other items refer to it. `referrers` are the paths of these items."""

    def __init__(self, referrers: Iterable[str]) -> None:
        super().__init__()
        self.referrers = sorted(referrers)


def replace_references(
    before: tuple[Reference, ...], by_module: Mapping[str, Iterable[Reference]]
) -> tuple[Reference, ...]:
    """Return an item's references after a change. `by_module` contains all references of the changed modules.

    If only the order of the references has changed, return them in the former order. Otherwise the item would count as
    changed, because states of items are compared with their references.
    """
    unchanged_references = (reference for reference in before if reference.module not in by_module)
    after = (*unchanged_references, *(reference for new in by_module.values() for reference in new))
    return before if {*before} == {*after} else after


def group_by_target(references: Iterable[Reference]) -> list[list[Reference]]:
    """Group references by target, because a transaction has at most one action per record."""
    targets = groupby(
        sorted(references, key=lambda reference: reference.target), key=lambda reference: reference.target
    )
    return [list(group) for _, group in targets]


def record(named: list[Reference], scope: str, id: str, *, changed: int | None) -> Write:
    """Return the write that adds an item's references to their target's record.

    `scope` and `id` are the primary key of the item that refers to the target. `changed` is the Unix second of the
    change, or None if the write does not count as a change of the target. The write fails with MissingTarget if the
    target does not exist, or has `max_referrers` referrers already.
    """
    first = named[0]
    free = "attribute_not_exists(#pointed_by) OR size(#pointed_by) < :most"
    condition = Condition(f"attribute_exists(#body) AND ({free})", {"most": first.max_referrers})
    paths = _paths(named, scope, id)
    sets, counts = _count_change(changed)
    adds: dict[str, int | Set[str]] = {"pointed_by": paths, **counts}
    return Write.update(*first.target, condition, sets=sets, adds=adds, failing=MissingTarget(first))


def erase(named: list[Reference], scope: str, id: str, *, changed: int | None) -> Write:
    """Return the write that removes an item's references from their target's record."""
    exists, paths = Condition("attribute_exists(#id)"), _paths(named, scope, id)
    sets, counts = _count_change(changed)
    return Write.update(*named[0].target, exists, sets=sets, removes={"pointed_by": paths}, adds=counts)


def from_record(record: Mapping[str, list[list[str]]]) -> tuple[Reference, ...]:
    """Return the references that `to_record` encoded."""
    return tuple(
        Reference("" if module == _BODY else module, scope, id)
        for module, targets in record.items()
        for scope, id in targets
    )


def to_record(references: Iterable[Reference]) -> dict[str, list[list[str]]]:
    """Return references as the referring item's record stores them: lists of targets by module."""
    record: dict[str, list[list[str]]] = {}
    for reference in sorted(references):
        record.setdefault(reference.module or _BODY, []).append([reference.scope, reference.id])
    return record


def _count_change(changed: int | None) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the attributes to set and the numbers to add in a target's record. Both are empty if `changed` is None."""
    return ({"changed": changed}, {"revision": 1}) if changed else ({}, {})


def _paths(references: list[Reference], scope: str, id: str) -> set[str]:
    path = scope.partition("#")[2]  # without the account's id, because referrer and target have the same account
    return {f"{path}/{id}/{reference.module}".rstrip("/") for reference in references}
