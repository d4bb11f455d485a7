"""Random IP policies of modules, and whom they admit by Python's `ipaddress`."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from random import Random

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import Rules
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import Condition

VISITORS = (
    *("127.0.0.1", "127.0.1.2", "10.0.0.1", "10.0.0.2", "10.0.255.255", "192.0.2.7", "198.51.100.9"),
    *("::1", "2001:db8::1", "2001:db8::ff", "2001:db8:0:1::1", "fe80::1", "64:ff9b::10.0.0.1", "::10.0.0.1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:192.0.2.7", "::ffff:c633:6409"),
)
_CIDRS = (
    *(
        "0.0.0.0/0",
        "127.0.0.0/8",
        "127.0.0.1",
        "10.0.0.0/8",
        "10.0.0.0/16",
        "10.0.0.0/31",
        "10.0.0.1/32",
        "128.0.0.0/1",
    ),
    *("::/0", "::/64", "::1", "2001:db8::/32", "2001:db8::/64", "2001:db8::f0/124", "2001:DB8:0::00FF", "fe80::/10"),
    *("::ffff:0:0/96", "::ffff:10.0.0.0/104", "::ffff:192.0.2.7", "192.0.2.0/24", "198.51.100.8/29", "64:ff9b::/96"),
)


@dataclass(frozen=True)
class DrawnModules:
    """One or two modules, each with the rules of its policies: "allow" or "deny", and a network."""

    modules: Sequence[Sequence[Sequence[tuple[str, str]]]]

    @property
    def refusals(self) -> tuple[Condition, ...]:
        """Return the conditions that the edge enforces."""
        return tuple(refusal for policies in self.modules for refusal in _refusals_of(policies))

    def admits(self, visitor: str) -> bool:
        """Tell whether every module lets a visitor pass: a rule of it allows the address, and none denies it."""
        address = _unmap(visitor)
        for policies in self.modules:
            matching = {action for rules in policies for action, cidr in rules if address in _network(cidr)}
            if matching != {"allow"}:
                return False
        return True


def draw(chance: Random) -> DrawnModules:
    """Draw modules with up to three policies of up to four rules."""
    return DrawnModules(
        [
            [
                [(chance.choice(["allow", "allow", "deny"]), chance.choice(_CIDRS)) for _ in range(chance.randrange(5))]
                for _ in range(chance.randrange(1, 4))
            ]
            for _ in range(chance.choice([1, 1, 2]))
        ]
    )


def _refusals_of(policies: Sequence[Sequence[tuple[str, str]]]) -> tuple[Condition, ...]:
    rules_by_id: dict[str, Rules | None] = {}
    for number, rules in enumerate(policies):
        of_action = {
            action: [ip_policies.parse_cidr(network) for kind, network in rules if kind == action]
            for action in ("allow", "deny")
        }
        rules_by_id[f"ipp_{number}"] = Rules(tuple(of_action["allow"]), tuple(of_action["deny"]))
    return ip_policies.find_refusals(IpRestrictionModule(ip_policy_ids=[*rules_by_id]), rules_by_id)


def _unmap(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _network(text: str) -> IPv4Network | IPv6Network:
    network = ip_network(text)
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return IPv4Network((mapped, network.prefixlen - 96)) if mapped else network
