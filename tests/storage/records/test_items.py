"""Items of records that are not as the product writes them: where the edge may write, there can be anything."""

from typing import Any

import pytest

from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

MALFORMED: list[tuple[list[str], list[Any]]] = [
    (["body"], [None, "text", b"x", [], 1]),
    (["expires", "lease", "revision"], ["soon", b"x", [], {}, "1.5"]),
    (["claims"], [1, [1], [["a"]], ["abc"], {"a": "b"}]),
    (["points"], [1, "text", [1], {"body": 1}, {"body": [1]}, {"body": [["a"]]}]),
    (["pointed_by"], [1, [{}], [[]]]),
]


@pytest.mark.parametrize(
    "malformed",
    [{name: value} for names, values in MALFORMED for name in names for value in values],
)
def test_an_item_of_a_malformed_record_is_empty(malformed: dict[str, Any]) -> None:
    item = Item.from_record({"scope": "a#/b", "id": "x", "body": {"a": 1}, "revision": 3, **malformed})
    assert item == Item("a#/b", "x", {}, revision=0)
    assert item.is_live


def test_an_item_of_a_malformed_record_has_the_unique_keys_that_it_holds() -> None:
    item = Item.from_record({"scope": "a#/b", "id": "x", "body": "text", "claims": [["hostports", "a/h:443"]]})
    assert item == Item("a#/b", "x", {}, unique_keys=(UniqueKey("hostports", "a/h:443"),), revision=0)
