"""The networks around the address of a client or visitor. Limits count all clients of a network together.

This file does no I/O.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable


def get_source(address: str) -> str:
    """Return an IPv4 address itself, or the /64 of an IPv6 address.

    One host can use any address of its /64.
    """
    return _prefix(address, 32, 64)


def get_network(address: str) -> str:
    """Return the network of an address: the /24 for IPv4, or the /64 for IPv6."""
    return _prefix(address, 24, 64)


def get_surroundings(address: str) -> str:
    """Return the larger network around an address: an IPv4 /24 or an IPv6 /48."""
    return _prefix(address, 24, 48)


class Networks:
    """A set of IP networks.

    `contain` needs one lookup for each prefix length in the set, not for each network.
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        # By IP version and number of host bits: the network addresses as integers, shifted right by the host bits.
        self._networks: dict[tuple[int, int], set[int]] = defaultdict(set)
        for network in map(ipaddress.ip_network, networks):
            shift = network.max_prefixlen - network.prefixlen
            self._networks[network.version, shift].add(int(network.network_address) >> shift)

    def contain(self, address: str) -> bool:
        """Return whether an address is in a network. An IPv4-mapped IPv6 address counts as IPv4."""
        if not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        number = int(parsed)
        return any(
            version == parsed.version and number >> shift in networks
            for (version, shift), networks in self._networks.items()
        )


def _prefix(address: str, bits_4: int, bits_6: int) -> str:
    """Return the network that contains an IP address.

    `bits_4` and `bits_6` are the prefix lengths for IPv4 and IPv6. An IPv4-mapped IPv6 address counts as IPv4. If
    `address` is not an IP address, it is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(parsed), bits_6), strict=False))
        parsed = parsed.ipv4_mapped
    return str(ipaddress.IPv4Network((int(parsed), bits_4), strict=False))
