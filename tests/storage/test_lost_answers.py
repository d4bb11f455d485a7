"""A write whose answer is lost is tried again, and what the second try finds is the work of the first."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage import aws, modules, table
from chalicelib.storage.items import Item
from chalicelib.storage.table import Also
from chalicelib.storage.unique_keys import UniqueKey

SCOPE = "acct_1#/things"


@contextmanager
def losing_the_first_answer(operation: str) -> Iterator[None]:
    """Let the store do what is asked, and the first answer to it be a 503."""
    lost: list[str] = []

    def lose(response: tuple[Any, dict[str, Any]] | None, **_: object) -> None:
        if response and not lost:
            lost.append(operation)
            response[0].status_code = 503
            response[1]["Error"] = {"Code": "ServiceUnavailable"}

    events = aws.client("dynamodb").meta.events
    events.register_first(f"needs-retry.dynamodb.{operation}", lose)
    try:
        yield
    finally:
        events.unregister(f"needs-retry.dynamodb.{operation}", lose)
    assert lost


def telling() -> Also:
    """Tell of a change, as every change of the product is told of."""
    event = Item("acct_1#/events", ids.new("evt"), {"told": True})
    return lambda before, after: (event,)


def test_a_deletion_is_done_although_its_answer_was_lost() -> None:
    made = Item(SCOPE, ids.new("x"), {"number": 1})
    table.create(made)
    with losing_the_first_answer("TransactWriteItems"):
        assert table.delete(made.scope, made.id, also=telling()) is True
    assert table.read(made.scope, made.id) is None
    assert table.delete(made.scope, made.id, also=telling()) is False
    assert len(table.newest("acct_1#/events")) == 1


def test_a_change_is_done_once_although_its_answer_was_lost() -> None:
    made = Item(SCOPE, ids.new("x"), {"number": 1})
    table.create(made)
    with losing_the_first_answer("TransactWriteItems"):
        changed = table.rewrite(SCOPE, made.id, lambda it: replace(it, body={"number": 2}), also=telling())
    assert changed == table.read(SCOPE, made.id) == replace(made, body={"number": 2}, revision=2)
    assert len(table.newest("acct_1#/events")) == 1


def test_a_module_is_dropped_although_the_answer_was_lost() -> None:
    id = ids.new("x")
    table.rewrite_any(SCOPE, id, modules.setting("module", {"enabled": True}), also=telling())
    with losing_the_first_answer("TransactWriteItems"):
        assert table.rewrite_any(SCOPE, id, modules.dropping("module"), also=telling()).modules == {}
    assert table.read_any(SCOPE, id) is None
    assert len(table.newest("acct_1#/events")) == 2


@pytest.mark.parametrize("keys", [(), (UniqueKey("name", "lost"),)])
def test_a_creation_is_done_once_although_its_answer_was_lost(keys: tuple[UniqueKey, ...]) -> None:
    made = Item(SCOPE, ids.new("x"), {"number": 1}, unique_keys=keys)
    with losing_the_first_answer("TransactWriteItems" if keys else "PutItem"):
        table.create(made)
    assert table.read(made.scope, made.id) == made
    assert table.delete(made.scope, made.id) is True
