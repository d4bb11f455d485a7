"""A change of several items: what it returns, which state it requires, and that it tells of each."""

from dataclasses import replace

import pytest

from chalicelib import ids
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.changes import Change
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item
from tests import records


class Wrong(Exception):
    pass


def backend() -> Item:
    return Item("acct_1#/backends/http_response", ids.new("bkdhr"), {"status_code": 200})


def other_status(item: Item) -> Item:
    return replace(item, body={"status_code": 503})


def test_a_change_is_of_its_first_item_also_where_a_later_one_stays_as_it_is() -> None:
    first, second, third = backend(), backend(), backend()
    records.create(second, third)
    change = Change(OPERATOR).put(first).rewrite(second, lambda item: item).rewrite(third, other_status)
    assert change.commit() == first
    assert [event.body["resource_id"] for event in change.events] == [first.id, third.id]
    stored_item = table.read(third.scope, third.id)
    assert stored_item
    assert (stored_item.body, stored_item.revision) == ({"status_code": 503}, 2)


def test_a_change_that_changes_nothing_writes_nothing_and_is_of_the_item_as_it_was() -> None:
    stored_item = backend()
    records.create(stored_item)
    change = Change(OPERATOR).rewrite(stored_item, lambda item: item)
    assert (change.commit(), change.events) == (stored_item, ())
    assert table.read(stored_item.scope, stored_item.id) == stored_item


def test_the_state_that_a_request_requires_is_that_of_the_first_item_alone() -> None:
    first, second = backend(), backend()
    records.create(first, second)

    def check(item: Item) -> None:
        if item.id == second.id:
            raise Wrong

    Change(OPERATOR, check).rewrite(first, other_status).remove(second).commit()
    assert table.read(second.scope, second.id) is None
    records.create(second)
    with pytest.raises(Wrong):
        Change(OPERATOR, check).remove(second)
