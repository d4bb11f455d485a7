"""What a record of any age reads as, and the unique keys of a change: a whole table, without a store."""

from dataclasses import dataclass, replace

import pytest

from chalicelib.model.base import records
from chalicelib.model.base.records import Stored
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey


@dataclass(frozen=True, kw_only=True)
class Lamp(Stored):
    colour: str
    shade: str = "dark"

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        return (UniqueKey("colour", self.colour, {"account": account, "id": id, "shade": self.shade}),)


LAMP = Lamp(colour="red")
ITEM = Item("acct_1#/lamps", "lmp_1", LAMP.to_record(), unique_keys=(UniqueKey("colour", "red"),))


def test_a_record_reads_with_defaults_and_without_what_is_unknown() -> None:
    assert Lamp.of({"colour": "red", "watts": 5}) == LAMP
    assert Lamp.complete({"colour": "red", "watts": 5}) == {"colour": "red", "watts": 5, "shade": "dark"}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (LAMP, [("colour", "red", {})]),
        (replace(LAMP, shade="pale"), [("colour", "red", {"shade": "pale"})]),
        (
            replace(LAMP, colour="blue"),
            [("colour", "blue", {"account": "acct_1", "id": "lmp_1", "shade": "dark"})],
        ),
    ],
    ids=["nothing", "an attribute", "the value"],
)
def test_a_change_sets_of_a_kept_key_what_differs_and_of_a_new_one_all(
    after: Lamp, expected: list[tuple[str, str, dict[str, str]]]
) -> None:
    keys = records.keys_of_change(ITEM, LAMP, after)
    assert [(key.kind, key.value, dict(key.attributes)) for key in keys] == expected


def test_a_change_keeps_keys_that_the_value_does_not_name_and_gives_none_that_the_item_lacked() -> None:
    token = UniqueKey("token", "t")
    pale = replace(LAMP, shade="pale")
    assert records.keys_of_change(replace(ITEM, unique_keys=(token,)), LAMP, pale) == (token,)
