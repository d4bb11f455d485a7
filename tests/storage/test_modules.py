"""Modules of items that were never made: they leave nothing behind."""

from dataclasses import replace
from typing import Any

from chalicelib import ids
from chalicelib.model.audit import trail
from chalicelib.model.changes import Change
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item
from tests import records

SCOPE = "acct_1#/edges/tcp"


def put(id: str, name: str, value: dict[str, int]) -> int:
    """Set a module; return the revision."""
    return set_modules(id, lambda modules: {**modules, name: value})


def drop(id: str, name: str) -> None:
    set_modules(id, lambda modules: {other: module for other, module in modules.items() if other != name})


def set_modules(id: str, edit: Any) -> int:
    before = table.read_any(SCOPE, id) or Item(SCOPE, id, {}, revision=0)
    after = Change(trail.OPERATOR).rewrite(before, lambda item: replace(item, modules=edit(item.modules))).commit()
    assert after
    return after.revision


def test_the_last_part_of_an_item_that_was_never_made_takes_the_record_with_it() -> None:
    id = ids.new("edgtcp")
    first = put(id, "one", {"a": 1})
    put(id, "other", {"b": 2})
    drop(id, "one")
    record = dynamodb.get(SCOPE, id)
    assert record
    assert record.pop("changed")
    assert record == {
        "scope": SCOPE,
        "id": id,
        "parts": {"other": {"b": 2}},
        "revision": first + 2,
        "schema": 2,
    }
    drop(id, "other")
    assert dynamodb.get(SCOPE, id) is None


def test_an_item_that_was_made_outlives_its_parts() -> None:
    new_item = Item(SCOPE, ids.new("edgtcp"), {"name": "it"})
    records.create(new_item)
    put(new_item.id, "one", {"a": 1})
    drop(new_item.id, "one")
    assert table.read(SCOPE, new_item.id) == replace(new_item, revision=3)
