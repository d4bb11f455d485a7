"""The limits on connections that are signing in, and the refusals that follow."""

import random
from dataclasses import dataclass, field

import pytest

from edge.process.settings import Limits
from edge.ssh.auth import sign_ins
from edge.ssh.auth.sign_ins import SignIns


def test_each_outcome_of_a_sign_in_has_its_penalty() -> None:
    assert (sign_ins.DROPPED, sign_ins.NO_KEY, sign_ins.WRONG_KEYS, sign_ins.NO_ANSWER) == (1, 1, 3, 10)


@dataclass(eq=False)
class Connection:
    """A connection that notes why it was dropped."""

    reasons: list[str] = field(default_factory=list)

    def drop(self, reason: str) -> None:
        self.reasons.append(reason)


def _of(waiting: SignIns, address: str, count: int) -> list[Connection]:
    connections = [Connection() for _ in range(count)]
    for connection in connections:
        waiting.begin(connection, address)
    return connections


def _list_dropped(connections: list[Connection]) -> set[str]:
    return {reason for connection in connections for reason in connection.reasons}


LIMITS = Limits(max_sign_ins=12, max_sign_ins_per_address=4, max_sign_ins_per_network=8, max_penalty=600)


@pytest.mark.parametrize(
    ("count_by_address", "remaining", "reasons"),
    [
        ({"192.0.2.1": 4}, 4, set()),
        ({"192.0.2.1": 5}, 4, {"too many sign-ins from its address"}),
        ({"192.0.2.1": 4, "192.0.2.2": 4, "192.0.2.3": 1}, 8, {"too many sign-ins from its network"}),
        ({"192.0.2.1": 4, "198.51.100.1": 4, "203.0.113.1": 4, "233.252.0.1": 1}, 12, {"too many sign-ins at once"}),
        ({"2001:db8:1:1::1": 4, "2001:db8:1:1::2": 1}, 4, {"too many sign-ins from its address"}),
        ({"2001:db8:1:1::1": 4, "2001:db8:1:2::1": 4, "2001:db8:1:3::1": 4}, 12, set()),
    ],
)
def test_of_too_many_one_is_dropped_and_told_why(
    count_by_address: dict[str, int], remaining: int, reasons: set[str]
) -> None:
    waiting = SignIns(LIMITS, lambda: 0)
    connections = [
        connection for address, count in count_by_address.items() for connection in _of(waiting, address, count)
    ]
    assert (len(waiting), _list_dropped(connections)) == (remaining, reasons)


def test_whoever_is_dropped_is_random_over_all() -> None:
    random.seed(1)
    newest = 0
    for _ in range(500):
        waiting = SignIns(LIMITS, lambda: 0)
        for number in range(3):
            _of(waiting, f"192.0.{number}.1", 4)
        newest += len(_of(waiting, "198.51.100.1", 1)[0].reasons)
    assert 20 < newest < 60  # one in thirteen


def test_an_address_that_floods_is_refused_and_those_around_it_are_not() -> None:
    waiting = SignIns(LIMITS, lambda: 0)
    good = _of(waiting, "192.0.2.2", 1)
    bad = _of(waiting, "192.0.2.1", 20)
    assert (len(waiting), _list_dropped(good), sum(len(connection.reasons) for connection in bad)) == (5, set(), 16)
    assert waiting.check_refusal("192.0.2.1")
    assert not waiting.check_refusal("192.0.2.2")


def test_many_clients_behind_one_address_that_come_back_at_once_all_come_in() -> None:
    count = rounds = 0
    waiting = SignIns(LIMITS, lambda: rounds)
    while count < 100 and rounds < 100:
        connections = [Connection() for _ in range(100 - count)]
        for connection in connections:
            if not waiting.check_refusal("192.0.2.1"):
                waiting.begin(connection, "192.0.2.1")
        count, rounds = count + len(waiting), rounds + 1
        for connection in connections:
            waiting.on_success(connection)
    assert (count, rounds) == (100, 25)


def test_a_refusal_grows_with_each_attempt_and_ends_with_its_time() -> None:
    now = [0.0]
    waiting = SignIns(LIMITS, lambda: now[0])
    (silent,) = _of(waiting, "192.0.2.1", 1)
    waiting.on_end(silent, 20)
    assert [waiting.check_refusal("192.0.2.1") for _ in range(3)] == [5, 6, 7]
    (other,) = _of(waiting, "198.51.100.1", 1)
    waiting.on_end(other, 10_000)
    assert waiting.check_refusal("198.51.100.1") == LIMITS.max_penalty - 15
    now[0] = 8
    assert waiting.check_refusal("192.0.2.1") == 0


def test_whoever_leaves_without_an_offence_has_no_penalty() -> None:
    waiting = SignIns(LIMITS, lambda: 0)
    for _ in range(1000):
        (connection,) = _of(waiting, "192.0.2.1", 1)
        waiting.on_end(connection, 0)
    assert waiting.check_refusal("192.0.2.1") == 0


def test_somebody_who_signs_in_clears_the_address() -> None:
    waiting = SignIns(LIMITS, lambda: 0)
    for _ in range(10):
        wrong, right = _of(waiting, "192.0.2.1", 2)
        waiting.on_end(wrong, sign_ins.WRONG_KEYS)
        waiting.on_success(right)
    assert (waiting.check_refusal("192.0.2.1"), len(waiting)) == (0, 0)
    waiting.on_end(right, 100)  # which is not signing in any more
    assert waiting.check_refusal("192.0.2.1") == 0
