"""Converts traffic policies to lists of networks that may connect to a port. This file does no I/O.

At a port, the result of a policy depends only on the client's address. Two networks are either nested or disjoint. So
all addresses with the same smallest network around them, among the policy's networks, get the same result. The list of
networks is therefore flat, even if the policy's expressions are nested deeply.
"""

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from ipaddress import IPv4Network, IPv6Network, ip_network

from chalicelib.model.edges.policy_expressions import (
    AllOf,
    AnyOf,
    ClientIn,
    Condition,
    Constant,
    Network,
    Not,
    PortIs,
    RegionIn,
)

_ROOTS = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_MAPPED = int(ip_network("::ffff:0:0/96").network_address)
_MAPPED_BITS = 96
_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Verdict:
    """A decision to admit or reject the clients in some networks. The networks do not overlap."""

    is_admitted: bool
    networks: tuple[Network, ...]


def decide(rejected: Condition, port: int, region: str) -> list[Verdict]:
    """Return verdicts that together cover all addresses.

    The first verdict with a network around the client's address applies. `rejected` is the policy: the condition under
    which a connection is closed. IPv4-mapped IPv6 addresses are treated like the IPv4 addresses.
    """
    networks = sorted({*_ROOTS, *_list_networks(rejected)}, key=_sort_key)
    rejected_networks = _Networks(networks, port, region).find(rejected)
    admitted = {network: not rejected_networks >> number & 1 for number, network in enumerate(networks)}
    admitted |= {
        _map(network): is_admitted for network, is_admitted in admitted.items() if isinstance(network, IPv4Network)
    }
    levels: dict[tuple[int, bool], list[Network]] = {}
    for level, is_admitted, network in _find_levels(admitted):
        levels.setdefault((level, is_admitted), []).append(network)
    return [Verdict(key[1], tuple(levels[key])) for key in sorted(levels, reverse=True)]


class _Networks:
    """Computes with sets of addresses.

    A set is an integer with one bit for each network. Bit n is set if the set contains the addresses that are in the
    n-th network, but in no smaller network of the list.
    """

    def __init__(self, networks: Sequence[Network], port: int, region: str) -> None:
        self._networks, self._port, self._region = networks, port, region
        self._keys = [_sort_key(network) for network in networks]
        self._universe = (1 << len(networks)) - 1

    def find(self, condition: Condition) -> int:
        """Return the set of addresses for which a condition is true."""
        match condition:
            case Constant(value):
                return self._universe if value else 0
            case PortIs(sign, number):
                return self._universe if _OPERATORS[sign](self._port, number) else 0
            case RegionIn(regions):
                return self._universe if self._region in regions else 0
            case ClientIn(networks):
                return reduce(operator.or_, map(self._find_within, networks), 0)
            case Not(negated):
                return self._universe ^ self.find(negated)
            case AllOf(conditions):
                return reduce(operator.and_, map(self.find, conditions), self._universe)
            case AnyOf(conditions):
                return reduce(operator.or_, map(self.find, conditions), 0)

    def _find_within(self, network: Network) -> int:
        """Return the set of all addresses in a network."""
        first = bisect_right(self._keys, _sort_key(network)) - 1
        end = bisect_right(self._keys, (network.version, int(network.broadcast_address), network.max_prefixlen))
        return (1 << end) - (1 << first)


def _list_networks(condition: Condition) -> Iterator[Network]:
    match condition:
        case ClientIn(networks):
            yield from networks
        case Not(negated):
            yield from _list_networks(negated)
        case AllOf(conditions) | AnyOf(conditions):
            for operand in conditions:
                yield from _list_networks(operand)


def _find_levels(admitted: Mapping[Network, bool]) -> Iterable[tuple[int, bool, Network]]:
    """Yield each network with its nesting level and whether its clients are admitted.

    A network is left out if its clients get the same decision as the clients of the smallest yielded network around it.
    """
    around: list[Network] = []
    for network in sorted(admitted, key=_sort_key):
        while around and not _contains(around[-1], network):
            around.pop()
        if not around or admitted[around[-1]] != admitted[network]:
            around.append(network)
            yield len(around), admitted[network], network


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.network_address in outer


def _map(network: IPv4Network) -> IPv6Network:
    return IPv6Network((_MAPPED + int(network.network_address), _MAPPED_BITS + network.prefixlen))


def _sort_key(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen
