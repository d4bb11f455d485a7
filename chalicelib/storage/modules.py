"""Modules of items: they come and go by themselves, also where the item itself was never made."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chalicelib.storage import aws, dynamodb, items, relations, table
from chalicelib.storage.dynamodb import Condition, ConditionFailed
from chalicelib.storage.items import Item
from chalicelib.storage.references import Reference


def put(scope: str, id: str, name: str, value: Mapping[str, Any]) -> Item:
    """Set a module of an item, which need not exist; return the item as it is then. Raises aws.Unavailable.

    The module refers to nothing from then on: references come by `replace_in`.
    """
    if items.parent(scope) and (item := replace_in(scope, id, name, value)):  # whose revision is raised with it
        return item
    first = items.changing(scope, id, {"parts": {name: value}}, Condition("attribute_not_exists(#parts)"))
    unrelated = Condition(f"attribute_exists(#parts) AND attribute_not_exists(#points.#{name})")
    further = items.changing(scope, id, {f"parts.{name}": value}, unrelated)
    for write in (further, first, further):  # the last one for when another set a first module in between
        try:
            return Item.from_record(dynamodb.update(write))
        except ConditionFailed as failed:
            if name in (failed.found or {}).get("points", {}):  # from when references were strict
                return replace_in(scope, id, name, value) or put(scope, id, name, value)
    raise aws.Unavailable("ConditionalCheckFailed")


def replace_in(
    scope: str, id: str, name: str, value: Mapping[str, Any] | None, named: tuple[Reference, ...] = ()
) -> Item | None:
    """Set a module of an item with what it refers to, None takes it away; None when there is no item.

    Raises MissingTarget, TooManyReferrers, TransactionTooLarge, aws.Unavailable.
    """

    def change(item: Item) -> Item:
        others = {kept: module for kept, module in item.modules.items() if kept != name}
        modules = others if value is None else {**others, name: value}
        return replace(item, modules=modules, references=relations.replaced(item.references, {name: named}))

    return table.rewrite(scope, id, change)


def drop(scope: str, id: str, name: str) -> bool:
    """Take a module of an item away, with its references; False when it has none of that name.

    Raises aws.Unavailable.
    """
    if items.parent(scope) and (item := table.read(scope, id)):
        return name in item.modules and replace_in(scope, id, name, None) is not None
    unrelated = Condition(f"attribute_exists(#parts.#{name}) AND attribute_not_exists(#points.#{name})")
    try:
        left = dynamodb.update(items.changing(scope, id, {f"parts.{name}": None}, unrelated))
    except ConditionFailed as failed:
        if name not in (failed.found or {}).get("parts", {}):
            return failed.was_retried
        replace_in(scope, id, name, None)
        return True
    if not left.get("body") and not left["parts"]:
        _forget(scope, id)
    return True


def _forget(scope: str, id: str) -> None:
    """Remove what is left of an item that was never made and has no modules any more."""
    nothing = Condition("attribute_not_exists(#body) AND #parts = :none", {"none": {}})
    with suppress(ConditionFailed):  # another set a module meanwhile
        dynamodb.delete(dynamodb.deleting(scope, id, nothing))


def sweep(scope: str) -> None:
    """Remove all items of a scope, and those of which only modules were ever set. Can be repeated after a crash.

    Raises InUse, aws.Unavailable.
    """
    expressions = {"KeyConditionExpression": "#scope = :scope", "ProjectionExpression": "#id"}
    for page in dynamodb.pages({"scope": scope}, limit=None, **expressions):
        for record in page:
            if not table.delete(scope, record["id"]):
                dynamodb.delete(dynamodb.deleting(scope, record["id"], Condition("attribute_not_exists(#body)")))
