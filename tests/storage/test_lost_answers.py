"""A write whose answer is lost is tried again, and what the second try finds is the work of the first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage import aws, modules, table
from chalicelib.storage.items import Item
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


def test_a_deletion_is_done_although_its_answer_was_lost() -> None:
    made = Item(SCOPE, ids.new("x"), {"number": 1})
    table.create(made)
    with losing_the_first_answer("DeleteItem"):
        assert table.delete(made.scope, made.id) is True
    assert table.read(made.scope, made.id) is None
    assert table.delete(made.scope, made.id) is False


def test_a_part_is_dropped_although_the_answer_was_lost() -> None:
    id = ids.new("x")
    modules.put(SCOPE, id, "module", {"enabled": True})
    with losing_the_first_answer("UpdateItem"):
        assert modules.drop(SCOPE, id, "module") is True
    assert modules.drop(SCOPE, id, "module") is False


@pytest.mark.parametrize("keys", [(), (UniqueKey("name", "lost"),)])
def test_a_creation_is_done_once_although_its_answer_was_lost(keys: tuple[UniqueKey, ...]) -> None:
    made = Item(SCOPE, ids.new("x"), {"number": 1}, unique_keys=keys)
    with losing_the_first_answer("TransactWriteItems" if keys else "PutItem"):
        table.create(made)
    assert table.read(made.scope, made.id) == made
    assert table.delete(made.scope, made.id) is True
