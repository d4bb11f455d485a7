"""Parts of items: they come and go by themselves, also where the item itself was never made."""

from collections.abc import Mapping
from typing import Any

from chalicelib.storage import aws, dynamodb, table
from chalicelib.storage.dynamodb import Condition, ConditionFailed
from chalicelib.storage.items import Item


def put(scope: str, id: str, name: str, value: Mapping[str, Any]) -> Item:
    """Set a part of an item, which need not exist; the item as it is then. Raises aws.Unavailable.

    The part points at nothing from then on: pointers come by `table.rewrite`.
    """
    first = dynamodb.setting(scope, id, {"parts": {name: value}}, Condition("attribute_not_exists(#parts)"))
    further = dynamodb.setting(scope, id, {f"parts.{name}": value}, Condition("attribute_exists(#parts)"))
    for part in (further, first, further):  # the last one for when another set a first part in between
        try:
            item = Item.from_record(dynamodb.update(part))
        except ConditionFailed:
            continue
        if any(pointer.part == name for pointer in item.points):  # from when references were strict
            table.rewrite(scope, id, {}, points={name: ()})
        return item
    raise aws.Unavailable("ConditionalCheckFailed")


def drop(scope: str, id: str, name: str) -> bool:
    """Take a part of an item away, with its pointers; False when it has none of that name. Raises aws.Unavailable."""
    unbound = Condition(f"attribute_exists(#parts.#{name}) AND attribute_not_exists(#points)")
    try:
        dynamodb.update(dynamodb.setting(scope, id, {f"parts.{name}": None}, unbound))
    except ConditionFailed as failed:
        item = Item.from_record(failed.found) if failed.found else None
        if item is None or name not in item.parts:
            return False
        table.rewrite(scope, id, {}, parts={name: None}, points={name: ()})
    return True
