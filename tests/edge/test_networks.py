"""The networks within which addresses count together, and blocked networks."""

import pytest

from edge import networks


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
    assert networks.Networks(["192.0.2.0/24", "2001:db8::/32", "2001:db9::2/128"]).contain(address) is is_blocked


def test_nobody_is_blocked_where_no_network_is() -> None:
    assert not networks.Networks().contain("192.0.2.9")
