"""Writes that only meet other transactions, and reads that a busy store leaves out: tried again, then given up."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.aws import Unavailable
from chalicelib.storage.records import direct_writes, items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken, UniqueKey
from tests import records
from tests.storage.answering import answer_operation

CANCELED = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
CONFLICT = "com.amazonaws.dynamodb.v20120810#TransactionConflictException"


def build_cancellation(*reasons: str) -> dict[str, Any]:
    return {"__type": CANCELED, "Message": "", "CancellationReasons": [{"Code": reason} for reason in reasons]}


def item() -> Item:
    return Item("acct_1#/things", ids.new("x"), {"number": 1}, unique_keys=(UniqueKey("name", "it"),))


def test_a_transaction_that_meets_another_is_tried_again() -> None:
    new_item = item()
    with answer_operation("TransactWriteItems", build_cancellation("None", "TransactionConflict"), times=1) as calls:
        records.create(new_item)
    assert len(calls) == 2
    assert table.read(new_item.scope, new_item.id) == new_item


def test_a_transaction_that_meets_others_again_and_again_is_busy() -> None:
    with (
        answer_operation("TransactWriteItems", build_cancellation("TransactionConflict", "None"), times=99) as calls,
        pytest.raises(Unavailable),
    ):
        records.create(item())
    assert len(calls) == 24


def test_a_single_write_that_meets_a_transaction_is_tried_again() -> None:
    new_item = Item("acct_1#/things", ids.new("x"), {"number": 1}, expires=2**39)
    with answer_operation("PutItem", {"__type": CONFLICT, "Message": ""}, times=1):
        records.create(new_item)
    with answer_operation("UpdateItem", {"__type": CONFLICT, "Message": ""}, times=1) as calls:
        assert direct_writes.renew(new_item.scope, new_item.id, lease=2**40)
    assert len(calls) == 2


def test_a_condition_that_failed_in_a_conflict_is_told_at_once() -> None:
    reasons = build_cancellation("TransactionConflict", "ConditionalCheckFailed")
    with answer_operation("TransactWriteItems", reasons, times=9) as calls, pytest.raises(Taken):
        records.create(item())
    assert len(calls) == 1


def left_out(*keys: tuple[str, str]) -> dict[str, Any]:
    """Return the answer of a busy store to a read of several records: it has read none of these."""
    item_keys = [{"scope": {"S": scope}, "id": {"S": id}} for scope, id in keys]
    return {"Responses": {}, "UnprocessedKeys": {dynamodb.table_name(): {"Keys": item_keys, "ConsistentRead": True}}}


def test_records_are_read_together_each_in_its_place() -> None:
    first, second = item(), Item("acct_1#/others", ids.new("x"), {"number": 2})
    records.create(first)
    records.create(second)
    keys = [(second.scope, second.id), ("acct_1#/things", ids.new("x")), (first.scope, first.id)]
    stored_records = dynamodb.get_each(*keys, keys[0])
    assert [items.decode_with_body(record) for record in stored_records] == [second, None, first, second]


def test_records_that_a_busy_store_leaves_out_are_asked_for_again() -> None:
    new_item = item()
    records.create(new_item)
    key = (new_item.scope, new_item.id)
    with answer_operation("BatchGetItem", left_out(key), times=2, status=200) as calls:
        [record] = dynamodb.get_each(key)
    assert items.decode_with_body(record) == new_item
    assert len(calls) == 3


def test_records_that_a_busy_store_leaves_out_again_and_again_are_not_taken_for_missing() -> None:
    key = ("acct_1#/things", ids.new("x"))
    with answer_operation("BatchGetItem", left_out(key), times=99, status=200) as calls, pytest.raises(Unavailable):
        dynamodb.get_each(key)
    assert len(calls) == 4
