"""The plans of an account's special names. This file does no I/O.

A special name needs a separate filter chain or listener in Envoy, for example for mutual TLS or TLS passthrough.
Envoy always has the resources of special names. It requests the resources of other names on demand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from chalicelib.domains import WILDCARD
from chalicelib.model.base import kinds
from chalicelib.model.edges.served import port_of
from chalicelib.model.names.special_names import SpecialEntry
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.names import scopes
from edge.plan import names
from edge.plan.names import NamePlan, PortPlan


@dataclass(frozen=True)
class SpecialPlans:
    """The plans of the special names of one account. `tunnels` are the plans of tunnels with TLS passthrough.

    `below` are hosts that match a special wildcard of the account, but belong to its other edges and tunnels. `closed`
    are hosts with unreadable records: Envoy closes connections to these hosts.
    """

    edges: tuple[Plan, ...] = ()
    tunnels: tuple[NamePlan, ...] = ()
    ports: tuple[PortPlan, ...] = ()
    below: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()

    @property
    def byte_tunnels(self) -> list[ServedTunnel]:
        """Return the tunnels to which Envoy forwards TLS or TCP connections directly, not through a tunnel group."""
        passed = (it.site.tunnel for it in self.tunnels if it.site)
        return [*passed, *(it.tunnel for it in self.ports if it.tunnel)]


def make_plans(
    entries: Iterable[SpecialEntry],
    records: AccountRecords,
    service: Service,
    hosts_of_account: Iterable[str] = (),
    closed: frozenset[str] = frozenset(),
) -> SpecialPlans:
    """Return the plans of an account's special names. Names that are not special any more are left out.

    `entries` is the account's part of the stored list of special names. `closed` are hosts with unreadable records.
    """
    every, now = sorted(entries, key=lambda entry: entry.owner), datetime.now(UTC)
    planned_edges = (names.plan_edge(it.owner.id, records, now, service) for it in every if not _is_of_tunnel(it))
    edges = tuple(it for it in planned_edges if it and names.is_special_edge(it.edge))
    special = closed.union(host.name for plan in edges for host in plan.hosts)
    wildcards = {it for it in special if it.startswith(WILDCARD)}
    below = (it for it in hosts_of_account if f"{WILDCARD}{it.partition('.')[2]}" in wildcards - {it})
    hosts = [name for it in every if _is_of_tunnel(it) for name in list_names(it) if not port_of(name)]
    passed = names.plan_names(hosts, records, now, service).values()
    ports = sorted({port for it in every for name in list_names(it) if (port := port_of(name))})
    planned = (names.plan_port(it, records, now, service) for it in ports)
    return SpecialPlans(
        edges,
        tuple(it for it in passed if it.site and it.is_special and it.name not in closed),
        tuple(it for it in planned if it.edge or it.tunnel),
        frozenset(below) - closed,
        closed,
    )


def find_requirements(plans: SpecialPlans) -> Mapping[str, str]:
    """Return by host which requirement each HTTPS edge has for handshakes, such as client certificates."""
    every = ((scopes.handshake_requirement(it), it) for it in plans.edges if not it.is_stream)
    return {host.name: requirement for requirement, plan in every for host in plan.hosts if host.answers}


def find_changed(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str]:
    """Return the changed handshake requirements by host. "" means that the host has no special requirement."""
    hosts = before.keys() | after.keys()
    return {it: after.get(it, "") for it in hosts if before.get(it, "") != after.get(it, "")}


def _is_of_tunnel(entry: SpecialEntry) -> bool:
    return kinds.identify(entry.owner.id) is kinds.TUNNELS


def list_hosts(entries: Iterable[SpecialEntry]) -> frozenset[str]:
    return frozenset(name for it in entries for name in list_names(it) if not port_of(name))


def list_names(entry: SpecialEntry) -> list[str]:
    """Return the special names in an entry of the stored list.

    They are host names without ":443", or host:port for TCP.
    """
    if kinds.identify(entry.owner.id) is kinds.TCP_EDGES:
        return list(entry.hostports)
    return [it.removesuffix(":443") for it in entry.hostports]
