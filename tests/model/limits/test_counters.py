"""How much of a flood several processes admit together, in simulated time, and what they report."""

import random
from collections import defaultdict

import pytest

from chalicelib.model.limits.counters import Counters, Use
from chalicelib.model.limits.rates import Rate

SCOPE = "acct_x#/limits/account"


class Processes:
    """Processes that share the requests of one account, and a store that counts their reports."""

    def __init__(self, count: int, rate: Rate, *, is_shared: bool = True) -> None:
        self.reports = 0
        self._windows: dict[int, int] = defaultdict(int)
        self._counters = [Counters(self._add) for _ in range(count)]
        self._use = Use(SCOPE, rate, is_shared=is_shared)
        self._random = random.Random(7)
        self._now = 1000.0

    def send(self, per_second: float, seconds: float) -> float:
        """Send requests at random times; return how many are admitted per second."""
        end, admitted = self._now + seconds, 0
        while self._now < end:
            self._now += self._random.expovariate(per_second)
            admitted += self._random.choice(self._counters).admit([self._use], self._now)[0]
        return admitted / seconds

    def _add(self, scope: str, window: int, count: int) -> dict[int, int]:
        assert scope == SCOPE
        self.reports += 1
        self._windows[window] += count
        return dict(self._windows)


@pytest.mark.parametrize(
    ("count", "limit", "factor"),
    [(1, 10, 1.05), (4, 10, 1.05), (16, 10, 1.05), (64, 10, 3.0), (1, 100, 1.05), (16, 100, 1.05), (64, 100, 1.05)],
)
def test_a_flood_of_ten_times_the_limit_is_held_within_the_documented_error(
    count: int, limit: int, factor: float
) -> None:
    processes = Processes(count, Rate(limit, limit))
    assert processes.send(limit * 10, 6) <= limit * count * 1.2  # until the processes know of each other
    assert 0.85 * limit <= processes.send(limit * 10, 20) <= factor * limit


@pytest.mark.parametrize("count", [1, 4, 16, 64])
def test_requests_below_the_limit_are_admitted_however_they_are_distributed(count: int) -> None:
    assert Processes(count, Rate(100, 200)).send(70, 30) == pytest.approx(70, rel=0.1)


def test_usual_requests_are_not_reported_and_a_busy_process_reports_every_two_seconds() -> None:
    usual, busy, separate = (Processes(1, Rate(100, 100), is_shared=shared) for shared in (True, True, False))
    usual.send(3, 30)
    assert usual.reports == 0
    busy.send(200, 30)
    assert 12 <= busy.reports <= 15
    separate.send(200, 30)
    assert separate.reports == 0


def test_a_refused_request_uses_nothing_of_any_limit() -> None:
    counters = Counters(lambda *_: {})
    account, key = Use("account", Rate(10, 10)), Use("key", Rate(1, 1))
    assert counters.admit([account, key], 1000.0)[0]
    is_admitted, (of_account, of_key) = counters.admit([account, key], 1000.0)
    assert (is_admitted, of_account.remaining, of_account.wait) == (False, 9, 0)
    assert (of_key.remaining, of_key.wait, of_key.reset) == (0, 1, 1)
    assert counters.admit([account, key], 1001.0)[0]


def test_looking_uses_nothing() -> None:
    counters, use = Counters(lambda *_: {}), Use("account", Rate(10, 10), cost=4)
    counters.admit([use], 1000.0)
    assert [counters.look(use, 1000.0).remaining for _ in range(3)] == [6, 6, 6]


def test_a_cost_above_the_burst_needs_a_full_bucket() -> None:
    counters, use = Counters(lambda *_: {}), Use("events", Rate(10, 20), cost=500)
    assert [counters.admit([use], now)[0] for now in (1000.0, 1001.9, 1002.0)] == [True, False, True]


def test_strangers_cannot_make_the_counts_of_accounts_be_forgotten() -> None:
    counters, account = Counters(lambda *_: {}), Use("account", Rate(1, 1))
    assert counters.admit([account], 1000.0)[0]
    for number in range(10_001):
        counters.admit([Use(f"address#{number}", Rate(1, 1), is_shared=False)], 1000.0)
    assert not counters.admit([account], 1000.0)[0]
