"""The networks that an address belongs to: whose sign-ins are counted together. Pure."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable


def source(address: str) -> str:
    """Return the address itself, of IPv6 its /64, in which one host has any address it likes."""
    return _prefix(address, 32, 64)


def network(address: str) -> str:
    """Return the /24 of an address, of IPv6 its /64."""
    return _prefix(address, 24, 64)


def around(address: str) -> str:
    """Return the network of many sources: the /24 of an address, of IPv6 its /48."""
    return _prefix(address, 24, 48)


class Blocked:
    """Networks that are blocked, asked by address."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks: dict[tuple[int, int], set[int]] = defaultdict(set)  # by IP's version, and bits of the host
        for network in map(ipaddress.ip_network, networks):
            shift = network.max_prefixlen - network.prefixlen
            self._networks[network.version, shift].add(int(network.network_address) >> shift)

    def holds(self, address: str) -> bool:
        """Tell whether an address lies in one of them; an IPv4 address within IPv6 counts as itself."""
        if not self._networks:
            return False
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        number = int(found)
        return any(
            version == found.version and number >> shift in networks
            for (version, shift), networks in self._networks.items()
        )


def _prefix(address: str, of_4: int, of_6: int) -> str:
    """Return a network of so many bits; an IPv4 address within IPv6 counts as itself, other text too."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(found), of_6), strict=False))
        found = found.ipv4_mapped
    return str(ipaddress.IPv4Network((int(found), of_4), strict=False))
