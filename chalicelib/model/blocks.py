"""Networks that the operator has blocked: nobody from there signs in at a gateway, and no edge host answers them."""

import ipaddress

from chalicelib.model.operator_lists import Entry, OperatorList

_NETWORKS = OperatorList("/blocked_networks", "network_block")
_LEAST = {4: 8, 6: 19}  # bits: of less the operator would lock out the internet by a slip


def normalize(text: str) -> str:
    """Return a network, or an address as the network of one, in its normal form. Raises ValueError."""
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("is not a network, for example 192.0.2.0/24 or 2001:db8::/32") from None
    if found.prefixlen < _LEAST[found.version]:
        raise ValueError(f"is larger than a /{_LEAST[found.version]}")
    return str(found)


def block(network: str) -> None:
    """Block a network in its normal form, with an event in the operator's trail. Raises aws.Unavailable."""
    _NETWORKS.add(network)


def unblock(network: str) -> bool:
    """Lift the block of a network; False where there is none. Raises aws.Unavailable."""
    return _NETWORKS.remove(network)


def list_networks() -> list[tuple[str, Entry]]:
    """Return all blocked networks with their entries. One query. Raises aws.Unavailable."""
    return _NETWORKS.entries()
