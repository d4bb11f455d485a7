"""When `te` connects again, as sequences of events."""

import pytest

from tunnel_edge.tunnels.reconnect import Reconnect


def reconnect(draw: float = 0.5) -> Reconnect:
    return Reconnect(lambda: draw)


def test_the_first_attempt_is_at_once_and_the_waits_double_up_to_fifteen_seconds() -> None:
    rules = reconnect()
    assert [rules.on_end(0) for _ in range(8)] == [0, 1, 2, 4, 8, 15, 15, 15]


def test_waits_differ_by_a_quarter() -> None:
    for draw, wait in ((0.0, 0.75), (1.0, 1.25)):
        rules = reconnect(draw)
        rules.on_end(0)
        assert rules.on_end(0) == wait


def test_a_tunnel_that_was_open_for_a_second_begins_the_waits_again() -> None:
    rules = reconnect()
    for now in range(0, 100, 10):
        rules.on_open(now)
        assert rules.on_end(now + 1) == 0


def test_a_tunnel_that_was_open_for_less_is_not_replaced_at_once_again() -> None:
    rules = reconnect()
    pauses = []
    for now in range(5):
        rules.on_open(now)
        pauses.append(rules.on_end(now + 0.5))
    assert pauses == [0, 1, 1, 1, 1]


def test_a_tunnel_that_the_gateway_ends_again_and_again_slows_down() -> None:
    rules = reconnect()
    pauses = []
    for now in range(0, 50, 10):
        rules.on_open(now)
        rules.on_tunnel_end()
        pauses.append(rules.on_end(now + 9))
    assert pauses == [0, 1, 2, 4, 8]


@pytest.mark.parametrize(("retry_after", "waited"), [(7.5, 7.5), (0, 0), (-1, 0), (1e9, 300)])
def test_a_gateway_can_ask_to_wait_once(retry_after: float, waited: float) -> None:
    rules = reconnect()
    rules.on_notice(retry_after)
    assert [rules.on_end(0), rules.on_end(0)] == [waited, 1]


def test_each_attempt_uses_the_next_gateway() -> None:
    rules = reconnect()
    choices = []
    for _ in range(4):
        choices.append(rules.choose(3))
        rules.on_end(0)
    assert choices == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("code", "final", "at_first", "later"),
    [
        ("invalid_request", True, True, True),
        ("not_permitted", True, True, True),
        ("name_taken", False, True, False),
        ("too_many_tunnels", False, True, False),
        ("unavailable", False, False, False),
        ("", False, True, False),
    ],
)
def test_a_refusal_ends_a_run_at_first_or_if_it_is_final(code: str, final: bool, at_first: bool, later: bool) -> None:
    rules = reconnect()
    assert rules.is_final(code, is_final=final) is at_first
    rules.on_open(0)
    assert rules.is_final(code, is_final=final) is later
