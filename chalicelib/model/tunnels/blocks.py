"""Networks that the operator has blocked. Gateways and edge hosts do not accept clients from them."""

import ipaddress

from chalicelib.model.operator_lists import Entry, OperatorList

_NETWORKS = OperatorList("/blocked_networks", "network_block")
# the shortest network prefix that can be blocked, by IP version; a mistake must not block much of the internet
_MIN_PREFIX = {4: 8, 6: 19}


def normalize(text: str) -> str:
    """Return a network or a single address in its normal form. Raises ValueError."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("is not a network, for example 192.0.2.0/24 or 2001:db8::/32") from None
    if network.prefixlen < _MIN_PREFIX[network.version]:
        raise ValueError(f"is too large: a blocked network can be a /{_MIN_PREFIX[network.version]} or smaller")
    return str(network)


def block(network: str) -> None:
    """Block a network in its normal form, with an audit event. Raises aws.Unavailable."""
    _NETWORKS.add(network)


def unblock(network: str) -> bool:
    """Lift the block of a network. Return False if it is not blocked. Raises aws.Unavailable."""
    return _NETWORKS.remove(network)


def list_networks() -> list[tuple[str, Entry]]:
    """Return all blocked networks with their entries. One query. Raises aws.Unavailable."""
    return _NETWORKS.entries()
