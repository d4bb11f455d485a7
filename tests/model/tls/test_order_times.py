"""Sets of the times of orders: bounded, and without times that no bound considers."""

import pytest

from chalicelib.model.tls import order_times
from chalicelib.model.tls.order_times import TimeSet
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import ConditionFailed
from tests.transports import Client

NOW = 1_800_000_000
BOUNDED, OTHER = TimeSet("all", 100, limit=2), TimeSet("failed/app.example.com", 50)


def test_a_set_has_no_more_times_than_its_bound_until_old_ones_are_removed(admin: Client) -> None:
    for second in (NOW, NOW):
        dynamodb.do(order_times.add(BOUNDED, second))
    with pytest.raises(ConditionFailed):
        dynamodb.do(order_times.add(BOUNDED, NOW + 100))
    assert order_times.read({"every": BOUNDED, "failed": OTHER}, NOW + 99) == {"every": [NOW, NOW], "failed": []}
    assert order_times.read({"every": BOUNDED}, NOW + 100) == {"every": []}
    dynamodb.do(order_times.add(BOUNDED, NOW + 100))
    assert order_times.read({"every": BOUNDED}, NOW + 100) == {"every": [NOW + 100]}


def test_a_set_without_a_bound_takes_all_times(admin: Client) -> None:
    for second in range(5):
        dynamodb.do(order_times.add(OTHER, NOW + second))
    assert order_times.read({"failed": OTHER}, NOW + 4) == {"failed": [NOW + second for second in range(5)]}
