"""The plan of what is to be served, as values that no engine knows: made of the records alone. Pure.

A group is what one TLS certificate serves. Whatever is wrong with an uploaded certificate touches its group alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edge.records import Certificate, Gateway, Served, Site

OPERATOR = "operator"  # the group and secret of the operator's own certificate, and of every unknown name


@dataclass(frozen=True)
class Group:
    """The sites that one TLS certificate serves; `certificate` is its id, or OPERATOR."""

    certificate: str
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class Plan:
    """All that an edge host serves: the operator's group first, then one for each uploaded certificate in use."""

    gateways: tuple[Gateway, ...]
    groups: tuple[Group, ...]

    @property
    def uploaded(self) -> tuple[Group, ...]:
        return self.groups[1:]


def make(served: Served, *, now: int) -> Plan:
    """Return what is to be served at the Unix second `now`."""
    up = {gateway.id for gateway in served.gateways}
    valid = [found for found in served.certificates if found.not_before <= now < found.not_after]
    by_certificate: dict[str, list[Site]] = {OPERATOR: []}
    for site in served.sites:
        if site.gateway in up:
            by_certificate.setdefault(_certificate(site, valid), []).append(site)
    groups = [Group(name, _sorted(sites)) for name, sites in sorted(by_certificate.items(), key=_operator_first)]
    return Plan(tuple(sorted(served.gateways, key=lambda gateway: gateway.id)), tuple(groups))


def covers(pattern: str, name: str) -> bool:
    """Tell whether a name in a certificate stands for a host name; a wildcard is one label (RFC 6125)."""
    pattern = pattern.lower()
    return pattern == name or (pattern.startswith("*.") and pattern[2:] == name.partition(".")[2])


def _certificate(site: Site, certificates: Sequence[Certificate]) -> str:
    """Return the account's certificate that covers the name, of several the one that runs longest."""
    fitting = [
        found
        for found in certificates
        if found.account == site.account and any(covers(name, site.name) for name in found.names)
    ]
    return max(fitting, key=lambda found: (found.not_after, found.id)).id if fitting else OPERATOR


def _sorted(sites: list[Site]) -> tuple[Site, ...]:
    return tuple(sorted(sites, key=lambda site: site.name))


def _operator_first(item: tuple[str, list[Site]]) -> tuple[bool, str]:
    return item[0] != OPERATOR, item[0]
