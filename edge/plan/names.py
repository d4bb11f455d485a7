"""The plan of a name: which edge or tunnel answers, and with which certificate. This file does no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from chalicelib import domains
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.modules import mutual_tls, tls_termination
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.edges.served import ServedEdge, port_of
from chalicelib.model.serving import edge_plans
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_plans import Plan, PlannedHost
from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.tunnels import ServedTunnel

# Values of an edge's `min_version` (TLS) for which Envoy's shared filter chain is enough.
_DEFAULT_VERSIONS = (None, "", "1.2")
_UNKNOWN = "The account has no edge and no online tunnel with this name."
_INACTIVE = "The operator has switched off the account."
_UNPROVED = "The account has not proved that it owns the domain."
_NO_CERTIFICATE = "No TLS certificate of the account covers the tunnel's name."


@dataclass(frozen=True)
class NamePlan:
    """Which tunnel or edge serves a name, and with which certificate.

    `certificate` is the id of a certificate, OPERATOR for the operator's certificate, or "" if the name is not served
    or TLS ends upstream. Requests go to the tunnel of `site` or to `edge`. If both are None, the name is not served:
    `refusal` is the reason, and `refused_by` is the edge to which the name belongs, if any. A special name needs a
    separate filter chain or listener in Envoy. A closed name belongs to an edge that refuses its handshakes.

    `hosts` are the Host headers that are accepted on connections of the name: the name itself, and the edge's other
    hosts with the same certificate, except wildcards.
    """

    name: str
    account: str
    certificate: str = ""
    site: Site | None = None
    edge: Plan | None = None
    refusal: str = ""
    refused_by: Plan | None = field(default=None, compare=False)
    is_special: bool = False
    is_closed: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def is_served(self) -> bool:
        return bool(self.site or self.edge)

    @property
    def restricts_visitors(self) -> bool:
        """Return whether the edge or tunnel refuses some visitors."""
        return self.edge.restricts_visitors if self.edge else self.site is not None and self.site.restricts_visitors

    def close_refused(self, error: str) -> "NamePlan":
        """Return the plan to use after Envoy has rejected the routes of this plan.

        If the rejected routes restrict visitors, the returned plan admits no visitors.
        """
        if self.site and self.site.restricts_visitors:
            return replace(self, site=replace(self.site, refusals=ip_policies.REFUSE_ALL))
        return replace(self, edge=edge_plans.close_refused(self.edge, error)) if self.edge else self


@dataclass(frozen=True)
class PortPlan:
    """The tunnel or the edge to which a TCP port belongs, or neither.

    The tunnel refuses visitors for which any condition in `refusals` is true.
    """

    port: str
    account: str
    tunnel: ServedTunnel | None = None
    edge: Plan | None = None
    refusals: tuple[Condition, ...] = ()


def plan_name(name: str, records: AccountRecords, now: datetime, service: Service) -> NamePlan:
    """Return the plan of a name at the time `now`.

    An edge with the name as a host comes before a tunnel. A tunnel comes before an edge with a matching wildcard.
    """
    return plan_names([name], records, now, service)[name]


def plan_names(names: Iterable[str], records: AccountRecords, now: datetime, service: Service) -> dict[str, NamePlan]:
    """Return the plan of each name. All names belong to one account. Each edge is planned only once."""
    planner = _Planner(records, now, service)
    return {name: planner.plan_name(name) for name in names}


def plan_edge(id: str, records: AccountRecords, now: datetime, service: Service) -> Plan | None:
    """Return the plan of an edge at the time `now`.

    Return None if the edge does not exist, or if its account is switched off.
    """
    planner = _Planner(records, now, service)
    edge = planner.view.edges.get(id)
    return planner.plan_edge(edge) if edge else None


def plan_port(port: str, records: AccountRecords, now: datetime, service: Service) -> PortPlan:
    """Return the plan of a TCP port. `records` are of the account to which the port belongs."""
    planner = _Planner(records, now, service)
    edge = planner.view.edge_at_port(port)
    plan = planner.plan_edge(edge) if edge else None
    if plan and port in map(port_of, plan.certificates):
        return PortPlan(port, records.account, edge=plan)
    return PortPlan(port, records.account, planner.view.tunnel_at(port), refusals=planner.view.refusals_at(port))


def is_special_edge(edge: ServedEdge) -> bool:
    """Return whether the names of an edge are special. Special names need a separate filter chain or listener in Envoy.

    The names are special if the edge has mutual TLS, OAuth or a `min_version` other than 1.2, or forwards bytes without
    HTTP.
    """
    termination = edge.modules.get(tls_termination.MODULE)
    has_other_version = termination is not None and termination.min_version not in _DEFAULT_VERSIONS
    has_own_manager = bool(edge.modules.get(mutual_tls.MODULE)) or edge_plans.requires_sign_in(edge)
    return has_own_manager or has_other_version or edge.is_stream


class _Planner:
    """Makes the plans of one account's names, ports and edges for the time `now`."""

    def __init__(self, records: AccountRecords, now: datetime, service: Service) -> None:
        self.view = AccountView(records, service)
        self._records, self._now = records, now
        self._plans: dict[str, Plan] = {}

    def plan_edge(self, edge: ServedEdge) -> Plan:
        if edge.id not in self._plans:
            self._plans[edge.id] = edge_plans.make_plan(edge, self.view, self._now)
        return self._plans[edge.id]

    def plan_name(self, name: str) -> NamePlan:
        account, view = self._records.account, self.view
        if not self._records.is_active:
            return NamePlan(name, account, refusal=_INACTIVE)
        if edge := view.edge_at_host(name):
            return self._plan_at_edge(name, name, edge)
        if site := view.site(name, self._now):
            return _plan_at_tunnel(site)
        if not view.may_serve(account, name):
            return NamePlan(name, account, refusal=_UNPROVED)
        wildcard = f"{domains.WILDCARD}{name.partition('.')[2]}"
        if edge := view.edge_at_host(wildcard):
            return self._plan_at_edge(name, wildcard, edge)
        refusal = _NO_CERTIFICATE if view.tunnel_at_host(name) else _UNKNOWN
        return NamePlan(name, account, refusal=refusal)

    def _plan_at_edge(self, name: str, host: str, edge: ServedEdge) -> NamePlan:
        """Return the plan of a name that an edge serves. `host` is the name, or the wildcard that matches it."""
        plan = self.plan_edge(edge)
        planned = next(other for other in plan.hosts if other.name == host)
        if not planned.answers:
            is_closed = planned.state == "refused"
            return NamePlan(name, edge.account, refusal=planned.error, refused_by=plan, is_closed=is_closed)
        names = (other.name for other in plan.hosts if _shares_connections(other, planned))
        hosts = (name, *(other for other in names if other != name))
        is_special = is_special_edge(edge)
        return NamePlan(name, edge.account, planned.certificate, edge=plan, is_special=is_special, hosts=hosts)


def _plan_at_tunnel(site: Site) -> NamePlan:
    account, certificate = site.tunnel.account, site.certificate
    return NamePlan(site.name, account, certificate, site, is_special=not certificate, hosts=(site.name,))


def _shares_connections(other: PlannedHost, host: PlannedHost) -> bool:
    is_alike = other.answers and other.certificate == host.certificate
    return is_alike and not other.name.startswith(domains.WILDCARD)
