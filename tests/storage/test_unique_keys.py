"""Claims: a value that one item holds for itself, taken and given up in the same transaction as the item."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage import aws, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken, UniqueKey

SCOPE = "acct_1#/things"
RED, BLUE = UniqueKey("colour", "red", {"shade": "dark"}), UniqueKey("colour", "blue")


def item(*held: UniqueKey) -> Item:
    return Item(SCOPE, ids.new("x"), {"name": "it"}, unique_keys=held)


def everything() -> list[dict[str, Any]]:
    return list(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])


def test_a_claim_is_read_with_its_facts() -> None:
    table.create(item(RED, BLUE))
    assert table.look_up("colour", "red") == {"shade": "dark"}
    assert table.look_up("colour", "blue") == {}
    assert table.look_up("colour", "green") is None
    assert table.look_up("shape", "red") is None


def test_an_item_knows_what_it_holds() -> None:
    made = item(RED, BLUE)
    table.create(made)
    found = table.read(SCOPE, made.id)
    assert found
    assert [(claim.kind, claim.value) for claim in found.unique_keys] == [("colour", "red"), ("colour", "blue")]


def test_a_claim_that_another_holds_is_taken_and_nothing_is_written() -> None:
    holder, other, third = item(RED), item(BLUE, RED), item()
    table.create(holder)
    before = everything()
    with pytest.raises(Taken) as taken:
        table.create(third, other)
    assert taken.value.key == RED
    assert everything() == before
    assert table.read(SCOPE, other.id) is None
    assert table.look_up("colour", "blue") is None


def test_the_first_of_several_taken_claims_is_named() -> None:
    table.create(item(RED, BLUE))
    with pytest.raises(Taken) as taken:
        table.create(item(UniqueKey("colour", "green"), BLUE, RED))
    assert taken.value.key == BLUE


def test_the_same_value_may_be_claimed_as_another_kind() -> None:
    table.create(item(RED))
    table.create(item(UniqueKey("flag", "red")))
    assert table.look_up("flag", "red") == {}


def test_creating_the_same_item_again_is_harmless() -> None:
    made = item(RED)
    table.create(made)
    before = everything()
    table.create(made)
    assert everything() == before


def test_a_deletion_releases_the_claims() -> None:
    made, successor = item(RED, BLUE), item(RED)
    table.create(made)
    assert table.delete(SCOPE, made.id) is True
    assert everything() == []
    table.create(successor)
    assert table.look_up("colour", "red") == {"shade": "dark"}
    assert table.delete(SCOPE, made.id) is False
    assert table.look_up("colour", "red") == {"shade": "dark"}


def test_a_change_keeps_the_claims() -> None:
    made = item(RED)
    table.create(made)
    assert table.change(SCOPE, made.id, {"name": "new"})
    with pytest.raises(Taken):
        table.create(item(RED))


def test_a_claim_stands_in_a_scope_of_its_own() -> None:
    table.create(item(RED, BLUE))
    scopes = [record["scope"]["S"] for record in everything()]
    assert sorted(scopes) == [SCOPE, "colour#blue", "colour#red"]


def test_what_a_claim_tells_is_in_no_representation() -> None:
    assert "dark" not in repr(RED)
    assert "dark" not in repr(item(RED))
    assert "red" not in str(Taken(RED))
