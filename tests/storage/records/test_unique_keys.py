"""Unique keys: a value that one item holds for itself, taken and given up in the same transaction as the item."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import clock, ids
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import TransactionFailed, Write
from chalicelib.storage.records import direct_writes, table, unique_keys
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken, UniqueKey
from tests import records

SCOPE = "acct_1#/things"
RED, BLUE = UniqueKey("colour", "red", {"shade": "dark"}), UniqueKey("colour", "blue")


def item(*keys: UniqueKey) -> Item:
    return Item(SCOPE, ids.new("x"), {"name": "it"}, unique_keys=keys)


def scan_records() -> list[dict[str, Any]]:
    return list(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])


def test_a_claim_is_read_with_its_facts() -> None:
    records.create(item(RED, BLUE))
    assert table.look_up("colour", "red") == {"shade": "dark"}
    assert table.look_up("colour", "blue") == {}
    assert table.look_up("colour", "green") is None
    assert table.look_up("shape", "red") is None


def test_an_item_knows_what_it_holds() -> None:
    new_item = item(RED, BLUE)
    records.create(new_item)
    stored_item = table.read(SCOPE, new_item.id)
    assert stored_item
    assert [(key.kind, key.value) for key in stored_item.unique_keys] == [("colour", "red"), ("colour", "blue")]


def test_a_claim_that_another_holds_is_taken_and_nothing_is_written() -> None:
    owner, other, third = item(RED), item(BLUE, RED), item()
    records.create(owner)
    before = scan_records()
    with pytest.raises(Taken) as error:
        records.create(third, other)
    assert error.value.key == RED
    assert scan_records() == before
    assert table.read(SCOPE, other.id) is None
    assert table.look_up("colour", "blue") is None


def test_the_first_of_several_taken_claims_is_named() -> None:
    records.create(item(RED, BLUE))
    with pytest.raises(Taken) as error:
        records.create(item(UniqueKey("colour", "green"), BLUE, RED))
    assert error.value.key == BLUE


def test_the_same_value_may_be_claimed_as_another_kind() -> None:
    records.create(item(RED))
    records.create(item(UniqueKey("flag", "red")))
    assert table.look_up("flag", "red") == {}


def test_creating_the_same_item_again_is_harmless() -> None:
    new_item = item(RED)
    records.create(new_item)
    before = scan_records()
    records.create(new_item)
    assert scan_records() == before


def test_a_deletion_releases_the_claims() -> None:
    new_item, successor = item(RED, BLUE), item(RED)
    records.create(new_item)
    assert records.delete(SCOPE, new_item.id) is True
    assert scan_records() == []
    records.create(successor)
    assert table.look_up("colour", "red") == {"shade": "dark"}
    assert records.delete(SCOPE, new_item.id) is False
    assert table.look_up("colour", "red") == {"shade": "dark"}


def test_a_change_keeps_the_claims() -> None:
    new_item = item(RED)
    records.create(new_item)
    assert records.rewrite(SCOPE, new_item.id, lambda item: replace(item, body={"name": "new"}))
    with pytest.raises(Taken):
        records.create(item(RED))


def test_a_claim_stands_in_a_scope_of_its_own() -> None:
    records.create(item(RED, BLUE))
    scopes = [record["scope"]["S"] for record in scan_records()]
    assert sorted(scopes) == [SCOPE, "colour#blue", "colour#red"]


def test_what_a_claim_tells_is_in_no_representation() -> None:
    assert "dark" not in repr(RED)
    assert "dark" not in repr(item(RED))
    assert "red" not in str(Taken(RED))


def make_leased(*unique_keys: UniqueKey, seconds: int) -> Item:
    """Return an item that expires."""
    return Item(SCOPE, ids.new("x"), {"name": "it"}, unique_keys=unique_keys, expires=clock.seconds() + seconds)


def test_who_comes_after_an_expired_holder_takes_its_key_over_and_removes_it() -> None:
    expired, heir = make_leased(RED, seconds=-1), item(RED, BLUE)
    records.create(expired)
    records.create(heir)
    assert table.look_up("colour", "red") == {"shade": "dark"}
    assert {record["id"]["S"] for record in scan_records()} == {heir.id, "claim"}
    assert not direct_writes.renew(SCOPE, expired.id, lease=clock.seconds() + 60)


def test_who_comes_after_a_holder_that_is_gone_takes_its_key_over() -> None:
    expired_item, heir = make_leased(RED, seconds=60), item(RED)
    records.create(expired_item)
    aws.client("dynamodb").delete_item(
        TableName="tunnel-edge", Key=dynamodb.encode({"scope": SCOPE, "id": expired_item.id})
    )
    records.create(heir)
    with pytest.raises(Taken):
        records.create(item(RED))


def test_a_holder_that_is_renewed_while_its_key_is_taken_over_keeps_it() -> None:
    owner, late, clients = make_leased(RED, seconds=-1), item(RED), []
    records.create(owner)

    def renew(**_: object) -> None:  # by another machine, whose clock is slow
        clients.append(aws.client("dynamodb"))
        if len(clients) == 2:  # the first transaction finds the key taken, the second takes it over
            clients[0].update_item(
                TableName="tunnel-edge",
                Key=dynamodb.encode({"scope": SCOPE, "id": owner.id}),
                UpdateExpression="SET expires = :later",
                ExpressionAttributeValues={":later": {"N": str(clock.seconds() + 60)}},
            )

    events = aws.client("dynamodb").meta.events
    events.register_first("before-send.dynamodb.TransactWriteItems", renew)
    try:
        with pytest.raises(Taken):
            records.create(late)
    finally:
        events.unregister("before-send.dynamodb.TransactWriteItems", renew)
    assert table.read(SCOPE, owner.id)
    assert table.read(SCOPE, late.id) is None
    with pytest.raises(Taken):
        records.create(late)


@pytest.mark.parametrize("write", [unique_keys.change, unique_keys.release])
def test_nobody_but_its_holder_changes_or_releases_a_key(write: Callable[[UniqueKey, str], Write]) -> None:
    records.create(item(RED))
    before = scan_records()
    with pytest.raises(TransactionFailed):
        dynamodb.transact([write(RED, ids.new("x"))])
    assert scan_records() == before


def test_a_holder_keeps_its_key_until_the_second_in_which_it_expires() -> None:
    records.create(make_leased(RED, seconds=60))
    with pytest.raises(Taken):
        records.create(make_leased(RED, seconds=60))


def test_a_successor_takes_the_key_of_a_live_holder_over_at_once_and_nobody_else_does() -> None:
    key = UniqueKey("colour", "red", successor="me")
    before, after = make_leased(key, seconds=60), make_leased(key, seconds=60)
    records.create(before)
    for other in (RED, UniqueKey("colour", "red", successor="you")):
        with pytest.raises(Taken):
            records.create(item(other))
    records.create(after)
    assert table.read(SCOPE, before.id) is None
    assert records.delete(SCOPE, after.id)
    assert table.look_up("colour", "red") is None


def test_a_key_of_1_x_whose_holder_has_gone_stays_taken() -> None:
    record = {"scope": RED.scope, "id": "claim", "body": {}, "holder": "x_1"}
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=dynamodb.encode(record))
    with pytest.raises(Taken):
        records.create(item(RED))
