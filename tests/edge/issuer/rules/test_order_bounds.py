"""Bounds of orders, as tables of earlier ones."""

import pytest

from edge.issuer.rules import order_bounds
from edge.issuer.rules.order_bounds import Bound, History, Limit, OrderBounds

NOW, DAY = 1_800_000_000, 86400
ALL = OrderBounds()


@pytest.mark.parametrize(
    ("times", "admitted"),
    [
        ((), 0),
        ((NOW - 1,), 0),
        ((NOW - 1, NOW - 9), NOW + 1),
        ((NOW - 1, NOW - 10), 0),
        ((NOW, NOW - 1, NOW - 2), NOW + 9),
    ],
)
def test_a_bound_admits_the_next_order_when_an_old_one_leaves_its_period(times: tuple[int, ...], admitted: int) -> None:
    assert Bound(2, 10, "").admits_at(times, NOW) == admitted


@pytest.mark.parametrize(
    ("history", "first", "renewal"),
    [
        (History(), None, None),
        (History(failed=[NOW - 5] * 4, issued=[NOW - 5] * 3, account=[NOW] * 19, service=[NOW] * 249), None, None),
        (History(failed=[NOW - 5] * 5), *[Limit(ALL.failed.limit, NOW - 5 + DAY)] * 2),
        (History(account=[NOW - 5] * 20), *[Limit(ALL.account.limit, NOW - 5 + 3600)] * 2),
        (History(issued=[NOW - 5] * 4), Limit(ALL.issued.limit, NOW - 5 + 7 * DAY), None),
        (History(service=[NOW - 5] * 250), Limit(ALL.service.limit, NOW - 5 + 3 * 3600), None),
        (History(registered=[NOW - 5] * 40), Limit(ALL.registered.limit, NOW - 5 + 7 * DAY), None),
        (  # the latest of several counts
            History(service=[NOW - 5] * 250, account=[NOW - 5] * 20),
            Limit(ALL.service.limit, NOW - 5 + 3 * 3600),
            Limit(ALL.account.limit, NOW - 5 + 3600),
        ),
    ],
)
def test_the_last_bound_to_admit_an_order_is_named(
    history: History, first: Limit | None, renewal: Limit | None
) -> None:
    assert order_bounds.find_limit(ALL, history, NOW, replaces=False) == first
    assert order_bounds.find_limit(ALL, history, NOW, replaces=True) == renewal
