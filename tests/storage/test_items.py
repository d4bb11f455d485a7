"""Items of records that are not as the product writes them: where the edge may write, there can be anything."""

from typing import Any

import pytest

from chalicelib.storage.items import Item


@pytest.mark.parametrize(
    "malformed",
    [
        *({"body": value} for value in (None, "text", b"x", [], 1)),
        *({name: value} for name in ("expires", "lease", "revision") for value in ("soon", b"x", [], {}, "1.5")),
        *({"claims": value} for value in (1, [1], [["a"]], ["abc"], {"a": "b"})),
        *({"points": value} for value in (1, "text", [1], {"body": 1}, {"body": [1]}, {"body": [["a"]]})),
        *({"pointed_by": value} for value in (1, [{}], [[]])),
    ],
)
def test_an_item_of_a_malformed_record_is_empty(malformed: dict[str, Any]) -> None:
    item = Item.from_record({"scope": "a#/b", "id": "x", "body": {"a": 1}, "revision": 3, **malformed})
    assert item == Item("a#/b", "x", {}, revision=0)
    assert item.is_live
