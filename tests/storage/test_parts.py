"""Parts of items that were never made: they leave nothing behind."""

from chalicelib import ids
from chalicelib.storage import dynamodb, parts, table
from chalicelib.storage.items import Item

SCOPE = "acct_1#/edges/tcp"


def test_the_last_part_of_an_item_that_was_never_made_takes_the_record_with_it() -> None:
    id = ids.new("edgtcp")
    parts.put(SCOPE, id, "one", {"a": 1})
    parts.put(SCOPE, id, "other", {"b": 2})
    assert parts.drop(SCOPE, id, "one")
    assert dynamodb.get(SCOPE, id) == {"scope": SCOPE, "id": id, "parts": {"other": {"b": 2}}}
    assert parts.drop(SCOPE, id, "other")
    assert dynamodb.get(SCOPE, id) is None
    assert not parts.drop(SCOPE, id, "other")


def test_an_item_that_was_made_outlives_its_parts() -> None:
    made = Item(SCOPE, ids.new("edgtcp"), {"name": "it"})
    table.create(made)
    parts.put(SCOPE, made.id, "one", {"a": 1})
    assert parts.drop(SCOPE, made.id, "one")
    assert table.read(SCOPE, made.id) == made
