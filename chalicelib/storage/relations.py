"""Relations of an item: its unique keys, its references, its parent; and the writes that change them with the item."""

from collections.abc import Iterable, Iterator, Mapping

from chalicelib.storage import dynamodb, items, references, unique_keys
from chalicelib.storage.dynamodb import Condition, Write
from chalicelib.storage.items import Item
from chalicelib.storage.references import MissingTarget, Reference
from chalicelib.storage.unique_keys import Taken

MAX_RELATIONS = 97  # of an item, and of one change: a transaction holds 100 actions, with item, parent and event
Meaning = Exception | None  # what a failed condition means; None: that the item has changed

_COUNTED = {"revision": 1}


class TransactionTooLarge(Exception):
    """An item would have, or a change would touch, more relations than a transaction holds; `field` names them."""

    def __init__(self, named: Iterable[Reference]) -> None:
        super().__init__()
        self.field = next((reference.field for reference in named if reference.field), "")


def replaced(before: Iterable[Reference], by_module: Mapping[str, tuple[Reference, ...]]) -> tuple[Reference, ...]:
    """Return the references of an item, where some of its modules are to refer to something else.

    They are in their order where none differs, so that the item is the same.
    """
    before = tuple(before)
    kept = (reference for reference in before if reference.module not in by_module)
    after = (*kept, *(reference for new in by_module.values() for reference in new))
    return before if {*before} == {*after} else after


def writes(before: Item, after: Item) -> list[tuple[Write, Meaning]]:
    """Return the writes that turn the relations of an item into those it is to have, each with its meaning.

    A change of a route also raises the revision of its edge, which shows it. Raises TransactionTooLarge.
    """
    changes = [*_unique_keys(before, after), *_references(before, after)]
    if max(len(changes), len(after.unique_keys) + len(after.references)) > MAX_RELATIONS:
        raise TransactionTooLarge(after.references)
    return [*changes, *_parent(before, after)]


def _unique_keys(before: Item, after: Item) -> Iterator[tuple[Write, Meaning]]:
    for key in after.unique_keys:
        if key not in before.unique_keys:
            yield unique_keys.taking(key, after.scope, after.id, items.SCHEMA), Taken(key)
        elif key.attributes:
            yield unique_keys.changing(key, after.id), None
    for key in before.unique_keys:
        if key not in after.unique_keys:
            yield unique_keys.releasing(key, after.id), None


def _references(before: Item, after: Item) -> Iterator[tuple[Write, Meaning]]:
    for new in references.by_target(set(after.references) - set(before.references)):
        yield references.recording(new, after.scope, after.id, adds=_counted(new, after)), MissingTarget(new[0])
    for old in references.by_target(set(before.references) - set(after.references)):
        yield references.erasing(old, after.scope, after.id, adds=_counted(old, after)), None


def _counted(named: list[Reference], item: Item) -> Mapping[str, int]:
    return _COUNTED if named[0].target == items.parent(item.scope) else {}


def _parent(before: Item, after: Item) -> Iterator[tuple[Write, Meaning]]:
    """Raise the parent's revision, unless it does not show the item, or this change writes it anyway."""
    parent = items.parent(after.scope) if before.body or after.body else None
    if parent and parent not in {named.target for named in set(after.references) ^ set(before.references)}:
        yield dynamodb.updating(*parent, Condition("attribute_exists(#body)"), adds=_COUNTED), None
