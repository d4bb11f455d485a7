"""The networks that an address belongs to: whose sign-ins are counted together. Pure."""

import ipaddress
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
        self._networks = [ipaddress.ip_network(network) for network in networks]

    def holds(self, address: str) -> bool:
        """Tell whether an address lies in one of them; an IPv4 address within IPv6 counts as itself."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._networks)

    def holds_source(self, source: str) -> bool:
        """Tell whether all of a source, as `source` returns it, lies in one of them; not where it is unknown."""
        try:
            found = ipaddress.ip_network(source)
        except ValueError:
            return False
        return any(found.network_address in it and found.prefixlen >= it.prefixlen for it in self._networks)


def _prefix(address: str, of_4: int, of_6: int) -> str:
    """Return a network of so many bits; an IPv4 address within IPv6 counts as itself, other text too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(found), of_6), strict=False))
        found = found.ipv4_mapped
    return str(ipaddress.IPv4Network((int(found), of_4), strict=False))
