"""The addresses to which the service may connect."""

import pytest

from chalicelib.federation import addresses

PUBLIC = ["8.8.8.8", "1.1.1.1", "192.0.1.1", "172.32.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1"]
OTHERS = [
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.0.0.2", "169.254.169.254", "172.16.0.1", "192.0.0.9"),
    *("192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::8.8.8.8", "fe80::1"),
    *("fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "64:ff9b::169.254.169.254", "64:ff9b:1::1"),
    *("64:ff9b::7f00:1", "100::1", "5f00::1"),
    *("2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "4000::1", "", "localhost", "127.1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize("address", OTHERS)
def test_other_addresses(address: str) -> None:
    assert not addresses.is_public(address)
