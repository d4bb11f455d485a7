"""The penalties of addresses and networks, with the clock of the test."""

import pytest

from edge.ssh.auth.penalties import Penalties


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
