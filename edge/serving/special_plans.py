"""The plans of an account's special names. This file does no I/O.

A special name needs a separate filter chain or listener in Envoy, for example for mutual TLS or TLS passthrough. Envoy
always has the resources of special names. Envoy requests the resources of other names on demand.
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
    """The plans of the special names of one account.

    `tunnels` are the plans of tunnels with TLS passthrough. `below` are hosts that match a special wildcard of the
    account, but belong to its other edges and tunnels. `closed` are hosts with unreadable records, and Envoy closes
    connections to them.
    """

    edges: tuple[Plan, ...] = ()
    tunnels: tuple[NamePlan, ...] = ()
    ports: tuple[PortPlan, ...] = ()
    below: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()

    @property
    def byte_tunnels(self) -> list[ServedTunnel]:
        """Return the tunnels to which Envoy forwards TLS or TCP connections directly, not through a tunnel group."""
        passed = (plan.site.tunnel for plan in self.tunnels if plan.site)
        return [*passed, *(plan.tunnel for plan in self.ports if plan.tunnel)]


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
    entries, now = sorted(entries, key=lambda entry: entry.owner), datetime.now(UTC)
    planned_edges = (
        names.plan_edge(entry.owner.id, records, now, service) for entry in entries if not _is_of_tunnel(entry)
    )
    edges = tuple(plan for plan in planned_edges if plan and names.is_special_edge(plan.edge))
    special = closed.union(host.name for plan in edges for host in plan.hosts)
    wildcards = {host for host in special if host.startswith(WILDCARD)}
    below = (host for host in hosts_of_account if f"{WILDCARD}{host.partition('.')[2]}" in wildcards - {host})
    hosts = [name for entry in entries if _is_of_tunnel(entry) for name in list_names(entry) if not port_of(name)]
    passed = names.plan_names(hosts, records, now, service).values()
    ports = sorted({port for entry in entries for name in list_names(entry) if (port := port_of(name))})
    planned = (names.plan_port(port, records, now, service) for port in ports)
    return SpecialPlans(
        edges,
        tuple(plan for plan in passed if plan.site and plan.is_special and plan.name not in closed),
        tuple(plan for plan in planned if plan.edge or plan.tunnel),
        frozenset(below) - closed,
        closed,
    )


def find_requirements(plans: SpecialPlans) -> Mapping[str, str]:
    """Return by host which requirement each HTTPS edge has for handshakes, such as client certificates."""
    requirements = ((scopes.handshake_requirement(plan), plan) for plan in plans.edges if not plan.is_stream)
    return {host.name: requirement for requirement, plan in requirements for host in plan.hosts if host.answers}


def find_changed(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str]:
    """Return the changed handshake requirements by host. "" means that the host has no special requirement."""
    hosts = before.keys() | after.keys()
    return {host: after.get(host, "") for host in hosts if before.get(host, "") != after.get(host, "")}


def _is_of_tunnel(entry: SpecialEntry) -> bool:
    return kinds.identify(entry.owner.id) is kinds.TUNNELS


def list_hosts(entries: Iterable[SpecialEntry]) -> frozenset[str]:
    return frozenset(name for entry in entries for name in list_names(entry) if not port_of(name))


def list_names(entry: SpecialEntry) -> list[str]:
    """Return the special names in an entry of the stored list.

    A name is a host name without ":443", or host:port for a TCP edge.
    """
    if kinds.identify(entry.owner.id) is kinds.TCP_EDGES:
        return list(entry.hostports)
    return [hostport.removesuffix(":443") for hostport in entry.hostports]
