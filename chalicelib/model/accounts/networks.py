"""Networks from which API keys may be used. `ipaddress` is imported only when a key has networks."""

from collections.abc import Iterable, Sequence

MAX_NETWORKS = 10  # the most networks of an API key or an account


def check(text: str) -> str:
    """Return a CIDR network. Raises ValueError if the text is malformed or the network has host bits."""
    import ipaddress

    try:
        address, _, prefix = text.partition("/")
        if not prefix.isdecimal() or "%" in address:
            raise ValueError
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("must be a CIDR network without host bits, for example 192.0.2.0/24") from None
    return str(network)


def contain(networks: Iterable[str], address: str) -> bool:
    """Return whether an address is in one of the networks. Returns False if the text is not an address."""
    import ipaddress

    try:
        ip_address = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(ip_address, "ipv4_mapped", None)
    return any((mapped or ip_address) in ipaddress.ip_network(network) for network in networks)


def find_outside(networks: Sequence[str], bounds: Sequence[str]) -> str | None:
    """Return the first network that is not within one of the networks in `bounds`, or None."""
    import ipaddress

    outer = [ipaddress.ip_network(bound) for bound in bounds]
    for network in networks:
        inner = ipaddress.ip_network(network)
        if not any(inner.version == each.version and inner.subnet_of(each) for each in outer):  # type: ignore[arg-type]
            return network
    return None
