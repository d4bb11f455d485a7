"""Items that tests put into the store by themselves, without an event: as the product writes them, but for that."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table, writes
from chalicelib.storage.records.items import Item


def create(*new: Item) -> None:
    new_items = [replace(item, read_at=None) for item in new]  # also one that a test made of another
    writes.commit([write for item in new_items for write in writes.put(item)], created=new_items)


def rewrite(scope: str, id: str, edit: Callable[[Item], Item]) -> Item | None:
    """Replace an item by what `edit` makes of it; return it, or None when there is none."""
    before = table.read(scope, id)
    if before is None:
        return None
    after = edit(before)
    writes.commit(writes.rewrite(before, after))
    return items.Item.from_record({**after.to_record(), "revision": before.revision + 1})


def delete(scope: str, id: str) -> bool:
    item = table.read(scope, id)
    if item:
        writes.commit(writes.remove(item))
    return item is not None


WRONG: tuple[Any, ...] = (None, True, 7, "text", b"bytes", [], {}, [{}], ["a"], {"a": "b"}, {"a": 1})


def read_record(id: str) -> dict[str, Any]:
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    matches = [item for page in pages for item in page["Items"] if item["id"]["S"].rpartition("/")[2] == id]
    (record,) = [item for item in matches if not item["scope"]["S"].startswith("edge#")]
    return dynamodb.decode(record)


def with_scope(prefix: str) -> list[dict[str, Any]]:
    """Return the stored records whose scope begins with a text."""
    first_page = aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"]
    return [dynamodb.decode(record) for record in first_page if record["scope"]["S"].startswith(prefix)]


def put(record: Mapping[str, Any]) -> None:
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=dynamodb.encode(record))


def remove(record: Mapping[str, Any]) -> None:
    dynamodb.do(Write.delete(record["scope"], record["id"]))


def list_all() -> list[dict[str, Any]]:
    """Return all stored records."""
    return with_scope("")
