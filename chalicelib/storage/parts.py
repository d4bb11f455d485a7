"""Parts of items: they come and go by themselves, also where the item itself was never made."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chalicelib.storage import aws, dynamodb, table
from chalicelib.storage.dynamodb import Condition, ConditionFailed
from chalicelib.storage.items import Item


def put(scope: str, id: str, name: str, value: Mapping[str, Any]) -> Item:
    """Set a part of an item, which need not exist; the item as it is then. Raises aws.Unavailable.

    The part points at nothing from then on: pointers come by `table.rewrite`.
    """
    first = dynamodb.setting(scope, id, {"parts": {name: value}}, Condition("attribute_not_exists(#parts)"))
    unbound = Condition(f"attribute_exists(#parts) AND attribute_not_exists(#points.#{name})")
    further = dynamodb.setting(scope, id, {f"parts.{name}": value}, unbound)
    for part in (further, first, further):  # the last one for when another set a first part in between
        try:
            return Item.from_record(dynamodb.update(part))
        except ConditionFailed as failed:
            if name in (failed.found or {}).get("points", {}):  # from when references were strict
                return table.rewrite(scope, id, {}, parts={name: value}, points={name: ()}) or put(
                    scope, id, name, value
                )
    raise aws.Unavailable("ConditionalCheckFailed")


def drop(scope: str, id: str, name: str) -> bool:
    """Take a part of an item away, with its pointers; False when it has none of that name. Raises aws.Unavailable."""
    unbound = Condition(f"attribute_exists(#parts.#{name}) AND attribute_not_exists(#points.#{name})")
    try:
        left = dynamodb.update(dynamodb.setting(scope, id, {f"parts.{name}": None}, unbound))
    except ConditionFailed as failed:
        if name not in (failed.found or {}).get("parts", {}):
            return failed.was_retried
        table.rewrite(scope, id, {}, parts={name: None}, points={name: ()})
        return True
    if not left.get("body") and not left["parts"]:
        _forget(scope, id)
    return True


def _forget(scope: str, id: str) -> None:
    """Remove what is left of an item that was never made and has no parts any more."""
    nothing = Condition("attribute_not_exists(#body) AND #parts = :none", {"none": {}})
    with suppress(ConditionFailed):  # another set a part meanwhile
        dynamodb.delete(dynamodb.deleting(scope, id, nothing))


def sweep(scope: str) -> None:
    """Remove all items of a scope, and those of which only parts were ever set. Can be repeated after a crash.

    Raises Held, aws.Unavailable.
    """
    expressions = {"KeyConditionExpression": "#scope = :scope", "ProjectionExpression": "#id"}
    for page in dynamodb.pages({"scope": scope}, limit=None, **expressions):
        for record in page:
            if not table.delete(scope, record["id"]):
                dynamodb.delete(dynamodb.deleting(scope, record["id"], Condition("attribute_not_exists(#body)")))
