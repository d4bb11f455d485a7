"""How many wrong passwords a visitor may send."""

import pytest

from edge.sign_in.passwords.guess_limits import GuessLimits

ROUTE, VISITOR = "edghtsrt_1", "192.0.2.1"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def guess(limits: GuessLimits, resource: str = ROUTE, address: str = VISITOR) -> bool:
    if limits.pause(resource, address):
        return False
    limits.take(resource, address)
    return True


def test_ten_guesses_are_free_and_then_one_each_six_seconds(clock: Clock) -> None:
    limits = GuessLimits(clock)
    assert [guess(limits) for _ in range(12)] == [True] * 10 + [False] * 2
    assert limits.pause(ROUTE, VISITOR) == 6
    clock.now += 5.5
    assert limits.pause(ROUTE, VISITOR) == 1
    clock.now += 0.5
    assert [guess(limits) for _ in range(2)] == [True, False]
    clock.now += 60
    assert [guess(limits) for _ in range(11)] == [True] * 10 + [False]


def test_in_an_hour_a_visitor_guesses_610_times(clock: Clock) -> None:
    limits, guesses = GuessLimits(clock), 0
    for _ in range(3600):
        guesses += sum(guess(limits) for _ in range(5))
        clock.now += 1
    assert 605 <= guesses <= 610


def test_a_password_that_is_right_costs_nothing(clock: Clock) -> None:
    limits = GuessLimits(clock)
    for _ in range(100):
        assert guess(limits)
        limits.give_back(ROUTE, VISITOR)
    assert [guess(limits) for _ in range(11)] == [True] * 10 + [False]


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ("192.0.2.2", False),
        ("::ffff:192.0.2.1", True),
        ("2001:db8::1", False),
        ("", False),
    ],
)
def test_a_visitor_is_an_address(clock: Clock, other: str, is_same: bool) -> None:
    limits = GuessLimits(clock)
    assert all(guess(limits) for _ in range(10))
    assert guess(limits, address=other) is not is_same
    assert guess(limits, resource="edghtsrt_2")


def test_a_network_of_ipv6_is_one_visitor(clock: Clock) -> None:
    limits = GuessLimits(clock)
    assert all(guess(limits, address=f"2001:db8::{number:x}") for number in range(10))
    assert not guess(limits, address="2001:db8:0:0:ffff::1")
    assert guess(limits, address="2001:db8:0:1::1")


def test_the_oldest_of_many_visitors_is_forgotten(clock: Clock) -> None:
    limits = GuessLimits(clock)
    assert all(guess(limits) for _ in range(10))
    for number in range(10_000):
        limits.take(ROUTE, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert guess(limits)
    assert len(limits._free_at) == 10_000
