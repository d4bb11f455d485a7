"""Modules of items: they come and go by themselves, also where the item itself was never made."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chalicelib.storage import dynamodb, relations, table
from chalicelib.storage.dynamodb import Condition
from chalicelib.storage.items import Item
from chalicelib.storage.references import Reference
from chalicelib.storage.table import Also, Change


def setting(name: str, value: Mapping[str, Any], named: tuple[Reference, ...] = ()) -> Change:
    """Return the change of an item that sets a module, with what it refers to."""
    return lambda item: replace(
        item, modules={**item.modules, name: value}, references=relations.replaced(item.references, {name: named})
    )


def dropping(name: str) -> Change:
    """Return the change of an item that takes a module away, with its references."""
    return lambda item: replace(
        item,
        modules={kept: module for kept, module in item.modules.items() if kept != name},
        references=relations.replaced(item.references, {name: ()}),
    )


def sweep(scope: str, *, also: Callable[[], Also]) -> None:
    """Remove all items of a scope, and those of which only modules were ever set. Can be repeated after a crash.

    `also` makes what to write with each. Raises InUse, aws.Unavailable.
    """
    for page in dynamodb.pages({"scope": scope}, limit=None, KeyConditionExpression="#scope = :scope"):
        for record in page:
            if not table.delete_item(Item.from_record(record), also=also()):
                dynamodb.delete(dynamodb.deleting(scope, record["id"], Condition("attribute_not_exists(#body)")))
