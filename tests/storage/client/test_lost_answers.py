"""A write whose answer is lost is tried again, and what the second try finds is the work of the first."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model import changes
from chalicelib.model.audit import trail
from chalicelib.model.changes import Change
from chalicelib.storage.client import aws
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

SCOPE, CHANGE = "acct_1#/backends/weighted", Change(trail.OPERATOR)


@contextmanager
def losing_the_first_answer(operation: str) -> Iterator[None]:
    """Let the store do what is asked, and the first answer to it be a 503."""
    lost_operations: list[str] = []

    def lose(response: tuple[Any, dict[str, Any]] | None, **_: object) -> None:
        if response and not lost_operations:
            lost_operations.append(operation)
            response[0].status_code = 503
            response[1]["Error"] = {"Code": "ServiceUnavailable"}

    events = aws.client("dynamodb").meta.events
    events.register_first(f"needs-retry.dynamodb.{operation}", lose)
    try:
        yield
    finally:
        events.unregister(f"needs-retry.dynamodb.{operation}", lose)
    assert lost_operations


def test_a_deletion_is_done_although_its_answer_was_lost() -> None:
    item = put()
    with losing_the_first_answer("TransactWriteItems"):
        assert changes.delete(CHANGE, SCOPE, item.id) is True
    assert table.read(SCOPE, item.id) is None
    assert changes.delete(CHANGE, SCOPE, item.id) is False
    assert events() == ["weighted_backend.delete", "weighted_backend.create"]


def test_a_change_is_done_once_although_its_answer_was_lost() -> None:
    item = put()
    with losing_the_first_answer("TransactWriteItems"):
        changed_item = changes.rewrite(CHANGE, SCOPE, item.id, lambda item: replace(item, body={"number": 2}))
    assert changed_item == table.read(SCOPE, item.id) == replace(item, body={"number": 2}, revision=2)
    assert events() == ["weighted_backend.update", "weighted_backend.create"]


def test_a_module_is_dropped_although_the_answer_was_lost() -> None:
    blank = Item("acct_1#/edges/tcp", ids.new("edgtcp"), {}, revision=0)
    put = CHANGE.rewrite(blank, lambda item: replace(item, modules={"one": {}}), verb="replace", module="one").commit()
    assert put
    with losing_the_first_answer("TransactWriteItems"):
        CHANGE.rewrite(put, lambda item: replace(item, modules={}), verb="delete", module="one").commit()
    assert table.read_any(blank.scope, blank.id) is None
    assert events() == ["tcp_edge.one.delete", "tcp_edge.one.replace"]


@pytest.mark.parametrize("keys", [(), (UniqueKey("name", "lost"),)])
def test_a_creation_is_done_once_although_its_answer_was_lost(keys: tuple[UniqueKey, ...]) -> None:
    with losing_the_first_answer("TransactWriteItems"):
        item = put(*keys)
    assert table.read(SCOPE, item.id) == item
    assert changes.delete(CHANGE, SCOPE, item.id) is True


def test_an_item_that_nobody_is_told_of_is_put_although_the_answer_was_lost() -> None:
    item = Item("edge#/things", "one", {"number": 1})
    with losing_the_first_answer("PutItem"):
        CHANGE.put(item).commit()
    assert table.read(item.scope, item.id) == item


def put(*keys: UniqueKey) -> Item:
    item = Item(SCOPE, ids.new("bkdwd"), {"number": 1}, unique_keys=keys)
    assert CHANGE.put(item).commit() == item
    return item


def events() -> list[str]:
    return [str(event.body["action"]) for event in table.list_newest("acct_1#/audit_events")]
