"""Parts of items that were never made: they leave nothing behind."""

from dataclasses import replace

from chalicelib import ids
from chalicelib.storage import dynamodb, modules, table
from chalicelib.storage.items import Item

SCOPE = "acct_1#/edges/tcp"


def test_the_last_part_of_an_item_that_was_never_made_takes_the_record_with_it() -> None:
    id = ids.new("edgtcp")
    modules.put(SCOPE, id, "one", {"a": 1})
    modules.put(SCOPE, id, "other", {"b": 2})
    assert modules.drop(SCOPE, id, "one")
    assert dynamodb.get(SCOPE, id) == {
        "scope": SCOPE,
        "id": id,
        "parts": {"other": {"b": 2}},
        "revision": 3,
        "schema": 2,
    }
    assert modules.drop(SCOPE, id, "other")
    assert dynamodb.get(SCOPE, id) is None
    assert not modules.drop(SCOPE, id, "other")


def test_an_item_that_was_made_outlives_its_parts() -> None:
    made = Item(SCOPE, ids.new("edgtcp"), {"name": "it"})
    table.create(made)
    modules.put(SCOPE, made.id, "one", {"a": 1})
    assert modules.drop(SCOPE, made.id, "one")
    assert table.read(SCOPE, made.id) == replace(made, revision=3)
