"""Parts of items that were never made: they leave nothing behind."""

from dataclasses import replace

from chalicelib import ids
from chalicelib.storage import dynamodb, modules, table
from chalicelib.storage.items import Item

SCOPE = "acct_1#/edges/tcp"


def put(id: str, name: str, value: dict[str, int]) -> None:
    table.rewrite_any(SCOPE, id, modules.setting(name, value))


def drop(id: str, name: str) -> None:
    table.rewrite_any(SCOPE, id, modules.dropping(name))


def test_the_last_part_of_an_item_that_was_never_made_takes_the_record_with_it() -> None:
    id = ids.new("edgtcp")
    first = table.rewrite_any(SCOPE, id, modules.setting("one", {"a": 1})).revision
    put(id, "other", {"b": 2})
    drop(id, "one")
    assert dynamodb.get(SCOPE, id) == {
        "scope": SCOPE,
        "id": id,
        "parts": {"other": {"b": 2}},
        "revision": first + 2,
        "schema": 2,
    }
    drop(id, "other")
    assert dynamodb.get(SCOPE, id) is None


def test_an_item_that_was_made_outlives_its_parts() -> None:
    made = Item(SCOPE, ids.new("edgtcp"), {"name": "it"})
    table.create(made)
    put(made.id, "one", {"a": 1})
    drop(made.id, "one")
    assert table.read(SCOPE, made.id) == replace(made, revision=3)
