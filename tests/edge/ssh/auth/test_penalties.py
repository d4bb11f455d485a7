"""Who is refused, who is dropped, and which addresses count together: as rules, with a clock of the tests."""

import random
from dataclasses import dataclass, field

import pytest

from edge.process.settings import Limits
from edge.ssh.auth import networks, sign_ins
from edge.ssh.auth.penalties import Penalties
from edge.ssh.auth.sign_ins import SignIns


@pytest.mark.parametrize(
    ("address", "source", "network", "around"),
    [
        ("192.0.2.9", "192.0.2.9/32", "192.0.2.0/24", "192.0.2.0/24"),
        ("::ffff:192.0.2.9", "192.0.2.9/32", "192.0.2.0/24", "192.0.2.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64", "2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/64", "fe80::/64", "fe80::/48"),
        ("?", "?", "?", "?"),
    ],
)
def test_addresses_of_one_network_count_together(address: str, source: str, network: str, around: str) -> None:
    assert (networks.get_source(address), networks.get_network(address), networks.get_surroundings(address)) == (
        source,
        network,
        around,
    )


@pytest.mark.parametrize(
    ("added", "at", "refused_for"),
    [
        ([10], 0, 0),
        ([10, 5], 0, 0),  # 15 seconds are forgiven
        ([10, 10], 0, 5),
        ([10, 10], 4, 1),
        ([10, 10], 5, 0),
        ([10, 10], 100, 0),
        ([10] * 30, 0, 85),  # 100 seconds at most
    ],
)
def test_penalties_add_up_and_fade(added: list[float], at: float, refused_for: float) -> None:
    penalties = Penalties(100)
    for seconds in added:
        penalties.add("192.0.2.9", seconds, 1000)
    assert penalties.get_refusal("192.0.2.9", 1000 + at) == refused_for
    assert penalties.get_refusal("198.51.100.9", 1000 + at) == 0


@pytest.mark.parametrize(("hostile", "is_refused"), [(6, False), (15, False), (17, True)])
@pytest.mark.parametrize(
    ("addresses", "good"), [("192.0.2.{}", "192.0.2.99"), ("2001:db8:1:{}::1", "2001:db8:1:99::1")]
)
def test_a_network_is_refused_where_many_of_its_addresses_are(
    hostile: int, is_refused: bool, addresses: str, good: str
) -> None:
    penalties = Penalties(600)
    for number in range(hostile):
        penalties.add(addresses.format(number), 16, 0)
        penalties.extend(addresses.format(number), 500, 0)
    assert bool(penalties.get_refusal(good, 0)) is is_refused


def test_an_address_that_has_signed_in_is_forgiven() -> None:
    penalties = Penalties(600)
    penalties.add("192.0.2.9", 100, 0)
    penalties.add("192.0.2.10", 100, 0)
    penalties.clear("192.0.2.9")
    assert [penalties.get_refusal(address, 0) for address in ("192.0.2.9", "192.0.2.10")] == [0, 85]


def test_a_penalty_that_has_faded_takes_nothing_off_the_next() -> None:
    penalties = Penalties(600)
    for now in (0, 1000):
        penalties.add("192.0.2.9", 20, now)
    assert penalties.get_refusal("192.0.2.9", 1000) == 5


def test_penalties_are_kept_of_so_many_networks_and_those_that_fade_first_are_forgotten() -> None:
    penalties = Penalties(600, capacity=100)
    penalties.add("192.0.2.9", 100, 0)
    for number in range(1000):
        penalties.add(f"10.{number // 250}.{number % 250}.1", 1, number / 100)
    assert len(penalties) <= 100
    assert penalties.get_refusal("192.0.2.9", 10) == 75


def test_of_too_many_networks_a_quarter_is_forgotten_at_once() -> None:
    penalties = Penalties(600, capacity=4)  # an address and the network around it
    counts = []
    for number in range(4):
        penalties.add(f"10.{number}.0.1", 20, 0)
        counts.append(len(penalties))
    assert counts == [2, 4, 3, 3]
    penalties.add("10.9.0.1", 20, 1000)
    assert len(penalties) == 2  # what has faded goes at once


def test_no_penalty_is_kept_of_who_has_none() -> None:
    penalties = Penalties(600)
    penalties.add("192.0.2.9", 0, 0)
    assert len(penalties) == 0


def test_each_outcome_of_a_sign_in_has_its_penalty() -> None:
    assert (sign_ins.DROPPED, sign_ins.NO_KEY, sign_ins.WRONG_KEYS, sign_ins.NO_ANSWER) == (1, 1, 3, 10)


@dataclass(eq=False)
class Connection:
    """A connection that notes why it was dropped."""

    reasons: list[str] = field(default_factory=list)

    def drop(self, reason: str) -> None:
        self.reasons.append(reason)


def _of(waiting: SignIns, address: str, count: int) -> list[Connection]:
    begun = [Connection() for _ in range(count)]
    for connection in begun:
        waiting.begin(connection, address)
    return begun


def _dropped(connections: list[Connection]) -> set[str]:
    return {reason for connection in connections for reason in connection.reasons}


LIMITS = Limits(max_sign_ins=12, max_sign_ins_per_address=4, max_sign_ins_per_network=8, max_penalty=600)


@pytest.mark.parametrize(
    ("held", "left", "reasons"),
    [
        ({"192.0.2.1": 4}, 4, set()),
        ({"192.0.2.1": 5}, 4, {"too many sign-ins from its address"}),
        ({"192.0.2.1": 4, "192.0.2.2": 4, "192.0.2.3": 1}, 8, {"too many sign-ins from its network"}),
        ({"192.0.2.1": 4, "198.51.100.1": 4, "203.0.113.1": 4, "233.252.0.1": 1}, 12, {"too many sign-ins at once"}),
        ({"2001:db8:1:1::1": 4, "2001:db8:1:1::2": 1}, 4, {"too many sign-ins from its address"}),
        ({"2001:db8:1:1::1": 4, "2001:db8:1:2::1": 4, "2001:db8:1:3::1": 4}, 12, set()),
    ],
)
def test_of_too_many_one_is_dropped_and_told_why(held: dict[str, int], left: int, reasons: set[str]) -> None:
    waiting = SignIns(LIMITS, lambda: 0)
    begun = [connection for address, count in held.items() for connection in _of(waiting, address, count)]
    assert (len(waiting), _dropped(begun)) == (left, reasons)


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
    assert (len(waiting), _dropped(good), sum(len(it.reasons) for it in bad)) == (5, set(), 16)
    assert waiting.check_refusal("192.0.2.1")
    assert not waiting.check_refusal("192.0.2.2")


def test_many_clients_behind_one_address_that_come_back_at_once_all_come_in() -> None:
    signed_in = rounds = 0
    waiting = SignIns(LIMITS, lambda: rounds)
    while signed_in < 100 and rounds < 100:
        begun = [Connection() for _ in range(100 - signed_in)]
        for connection in begun:
            if not waiting.check_refusal("192.0.2.1"):
                waiting.begin(connection, "192.0.2.1")
        signed_in, rounds = signed_in + len(waiting), rounds + 1
        for connection in begun:
            waiting.on_success(connection)
    assert (signed_in, rounds) == (100, 25)


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
        (left,) = _of(waiting, "192.0.2.1", 1)
        waiting.on_end(left, 0)
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


@pytest.mark.parametrize(
    ("address", "is_blocked"),
    [
        ("192.0.2.9", True),
        ("::ffff:192.0.2.9", True),
        ("192.0.3.9", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("2001:db8::1%eth0", True),
        ("2001:db9::1%eth0", False),
        ("2001:db9::2", True),
        ("::192.0.2.9", False),  # the same number, of IPv6
        ("2001:db9::3", False),
        ("?", False),
        ("", False),
    ],
)
def test_an_address_is_blocked_with_its_network(address: str, is_blocked: bool) -> None:
    assert networks.BlockedNetworks(["192.0.2.0/24", "2001:db8::/32", "2001:db9::2/128"]).contain(address) is is_blocked


def test_nobody_is_blocked_where_no_network_is() -> None:
    assert not networks.BlockedNetworks().contain("192.0.2.9")
