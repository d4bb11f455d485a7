"""References: one item names another, its target. Both record it, so that the target cannot be deleted meanwhile.

Every record of one is part of the transaction that writes the item which refers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as default
from itertools import groupby

from chalicelib.storage.dynamodb import Condition, Write

MAX_REFERRERS = 1000  # of one target: they stand in its record, which DynamoDB limits to 400 KB

_BODY = "body"  # what stands in a record for the module ""


@dataclass(frozen=True, order=True)
class Reference:
    """The target that an item names, and the module of the item that does ("" for its body).

    `field` names the target in what the caller sent; `max_referrers` is how many items may name the target.
    """

    module: str
    scope: str
    id: str
    field: str = default(default="", compare=False)
    max_referrers: int = default(default=MAX_REFERRERS, compare=False)

    @property
    def target(self) -> tuple[str, str]:
        """Return the scope and id of what is named."""
        return self.scope, self.id


class MissingTarget(Exception):
    """The target of a reference does not exist."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.id)
        self.reference = reference


class TooManyReferrers(Exception):
    """As many items as may name the target do so already."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.id)
        self.reference = reference


class InUse(Exception):
    """Items refer to what was to be deleted; `referrers` are their paths."""

    def __init__(self, referrers: Iterable[str]) -> None:
        super().__init__()
        self.referrers = sorted(referrers)


def replaced(before: tuple[Reference, ...], by_module: Mapping[str, Iterable[Reference]]) -> tuple[Reference, ...]:
    """Return the references of an item, where some of its modules are to refer to something else.

    They are in their order where none differs, so that the item is the same.
    """
    kept = (reference for reference in before if reference.module not in by_module)
    after = (*kept, *(reference for new in by_module.values() for reference in new))
    return before if {*before} == {*after} else after


def by_target(references: Iterable[Reference]) -> list[list[Reference]]:
    """Group references by target: a transaction holds one action for each record."""
    targets = groupby(sorted(references, key=lambda found: found.target), key=lambda found: found.target)
    return [list(group) for _, group in targets]


def record(named: list[Reference], scope: str, id: str, *, adds: Mapping[str, int]) -> Write:
    """Return the write that records references at their target; MissingTarget, without one or at `max_referrers`."""
    first = named[0]
    free = "attribute_not_exists(#pointed_by) OR size(#pointed_by) < :most"
    condition = Condition(f"attribute_exists(#body) AND ({free})", {"most": first.max_referrers})
    paths = _paths(named, scope, id)
    return Write.update(*first.target, condition, adds={"pointed_by": paths, **adds}, failing=MissingTarget(first))


def erase(named: list[Reference], scope: str, id: str, *, adds: Mapping[str, int]) -> Write:
    """Return the write that removes references from the record of their target; `adds` as for `Write.update`."""
    there, paths = Condition("attribute_exists(#id)"), _paths(named, scope, id)
    return Write.update(*named[0].target, there, removes={"pointed_by": paths}, adds=adds)


def from_record(record: Mapping[str, list[list[str]]]) -> tuple[Reference, ...]:
    """Return the references that `to_record` wrote."""
    return tuple(
        Reference("" if module == _BODY else module, scope, id)
        for module, targets in record.items()
        for scope, id in targets
    )


def to_record(references: Iterable[Reference]) -> dict[str, list[list[str]]]:
    """Return references as they stand in the record of the item that refers: the targets by module."""
    record: dict[str, list[list[str]]] = {}
    for reference in sorted(references):
        record.setdefault(reference.module or _BODY, []).append([reference.scope, reference.id])
    return record


def _paths(references: list[Reference], scope: str, id: str) -> set[str]:
    path = scope.partition("#")[2]  # a target and what refers to it are of one account
    return {f"{path}/{id}/{reference.module}".rstrip("/") for reference in references}
