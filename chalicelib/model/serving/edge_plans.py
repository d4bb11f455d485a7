"""The plan of an edge: what each of its hosts and routes serves, according to the records. This file does no I/O."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Literal

from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.modules import backend, ip_restriction, oauth, tls_termination
from chalicelib.model.edges.policy_expressions import Condition
from chalicelib.model.edges.served import ServedEdge, ServedRoute, port_of
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.serving import pages, shares, states, streams
from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.states import HostFacts
from chalicelib.model.serving.streams import Destinations

State = Literal["live", "unproved", "refused"]
# the page with which a route answers, by the reason why the route is closed
_PAGES = {"": "", "not_enforced": pages.NOT_ENFORCED, "no_backend": pages.NO_BACKEND}


@dataclass(frozen=True)
class PlannedHost:
    """The planned state of a host of an edge (for a TCP edge, of a host:port).

    `certificate` is the id of the certificate with which the host answers, or "" if the host does not answer or TLS
    ends upstream. `error` gives the reason why a host is closed, or describes another problem. A host without a
    certificate that covers its name answers with the operator's certificate, but is not live.
    """

    name: str
    state: State
    error: str = ""
    certificate: str = ""

    @property
    def answers(self) -> bool:
        """Return whether TLS handshakes or TCP connections for the host are accepted."""
        return self.state == "live" or bool(self.certificate)


@dataclass(frozen=True)
class RouteTarget:
    """The target of a route: backends with weights, or a page if the route is closed. `error` describes a problem.

    `online` are the backends that can answer now, with weights, or all backends if none can. If `rule` is set, visitors
    must sign in. `refusals` are conditions on the visitor's address, from the route and its edge: a visitor is refused
    if one of them is true.
    """

    route: ServedRoute
    weights: tuple[tuple[str, int], ...] = ()
    page: str = ""
    error: str = ""
    online: tuple[tuple[str, int], ...] = ()
    rule: SignInRule | None = None
    refusals: tuple[Condition, ...] = ()

    @property
    def restricts_visitors(self) -> bool:
        """Return whether a module of the route can refuse visitors."""
        return self.page == pages.NOT_ENFORCED or self.route.modules.restrict_visitors

    @property
    def admits_ambiguous_paths(self) -> bool:
        """Return whether Envoy may accept paths that the upstream can read as different paths.

        Envoy must reject such a path if it could bypass a module of the route.
        """
        return self.page != pages.NOT_ENFORCED and self.route.modules.admit_ambiguous_paths


@dataclass(frozen=True)
class Plan:
    """The hosts, routes and destinations of an edge.

    `served_elsewhere` are names below the edge's wildcards that other edges, tunnels or accounts serve. `trusted` are
    the PEM certificates of the authorities for mutual TLS. `page` answers all requests of a closed edge. With
    `is_proxied`, upstreams get the visitor's address by the PROXY protocol. `unreserved` hosts refuse challenges of
    certificate authorities. `refusals` are conditions on the visitor's address: a visitor of the edge is refused if one
    of them is true.
    """

    edge: ServedEdge
    hosts: tuple[PlannedHost, ...]
    served_elsewhere: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    targets: tuple[RouteTarget, ...] = ()
    page: str = ""
    destinations: Destinations = field(default_factory=Destinations)
    is_proxied: bool = False
    unreserved: tuple[str, ...] = ()
    refusals: tuple[Condition, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Return whether the edge forwards connections as bytes."""
        return self.edge.is_stream

    @property
    def restricts_visitors(self) -> bool:
        """Return whether a module of the edge or of a route can refuse visitors."""
        return bool(self.refusals) or any(target.restricts_visitors for target in self.targets)

    @cached_property
    def requires_sign_in(self) -> bool:
        """Return whether a route of the edge has the OAuth module.

        If so, Envoy has a separate HTTP connection manager for the edge's names.
        """
        return requires_sign_in(self.edge)

    @property
    def certificates(self) -> dict[str, str]:
        """Return the certificate ids by host, for all hosts that answer."""
        return {host.name: host.certificate for host in self.hosts if host.answers}

    @property
    def backends(self) -> frozenset[str]:
        """Return the ids of the edge's tunnel groups and HTTP responses."""
        weights = (*self.destinations.groups, *(weight for target in self.targets for weight in target.weights))
        return frozenset(id for id, _ in weights)

    @property
    def routes_name(self) -> str:
        """Return the name of the edge's route configuration in Envoy.

        The name contains a digest of the edge's requirements on TLS handshakes. So if the requirements change, open
        connections that met only the earlier requirements find no routes.
        """
        return f"edge/{self.edge.id}/{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Return a digest of the edge's requirements on TLS handshakes and of its need for sign-in."""
        termination = self.edge.modules.get(tls_termination.MODULE)
        asked = [termination.min_version or "" if termination else "", *self.trusted]
        asked += ["sign-in"] if self.requires_sign_in else []
        return hashlib.sha256("\n".join(asked).encode()).hexdigest()[:12]


def requires_sign_in(edge: ServedEdge) -> bool:
    """Return whether a route of an edge has the OAuth module."""
    return any(oauth.MODULE.name in route.modules.values for route in edge.routes)


def close_refused(before: Plan, error: str) -> Plan:
    """Return the plan of an edge after Envoy rejected its routes.

    Envoy keeps the earlier routes, which can accept visitors that the new ones refuse. So the edge is closed if the
    edge or a new route restricts visitors. Otherwise the plan is unchanged.
    """
    if not before.restricts_visitors:
        return before
    targets = (RouteTarget(target.route, page=pages.NOT_ENFORCED, error=error) for target in before.targets)
    return replace(before, targets=tuple(targets), page=pages.NOT_ENFORCED, refusals=())


def listener_name(edge: str, certificate: str) -> str:
    """Return the name of the Envoy listener for an edge's hosts with a certificate.

    `certificate` is "" for hosts with TLS upstream.
    """
    return f"edge/{edge}/{certificate or 'upstream'}"


def make_plan(edge: ServedEdge, view: AccountView, now: datetime) -> Plan:
    """Return the plan of an edge at the time `now`."""
    destinations = _destinations(edge, view)
    hosts = tuple(_plan_host(edge, name, view, now, destinations) for name in edge.hosts)
    trusted = tuple(authority.pem for authority in view.authorities_of(edge) if authority)
    is_proxied = _is_proxied(edge, hosts[0].name, view) if hosts else False
    if edge.is_stream:
        refusals = _find_stream_refusals(edge, view)
        return Plan(edge, hosts, trusted=trusted, destinations=destinations, is_proxied=is_proxied, refusals=refusals)
    refusals = ip_policies.find_refusals(edge.modules.get(ip_restriction.MODULE), view.policies)
    targets = tuple(_plan_target(edge, route, view, refusals) for route in sorted(edge.routes, key=_precedence))
    if ip_policies.has_too_many(target.refusals for target in targets):
        refusals = ip_policies.REFUSE_ALL
        targets = tuple(
            replace(target, refusals=refusals, error=f"{target.error} {ip_policies.TOO_MANY}".strip())
            for target in targets
        )
    page = pages.NOT_ENFORCED if edge.modules.unenforced else ""
    unreserved = tuple(host for host in edge.hosts if view.refuses_challenges(edge.account, host))
    elsewhere = tuple(_names_served_elsewhere(edge, view))
    served = Plan(edge, hosts, elsewhere, trusted, targets, page, is_proxied=is_proxied, unreserved=unreserved)
    return replace(served, refusals=refusals)


def _find_stream_refusals(edge: ServedEdge, view: AccountView) -> tuple[Condition, ...]:
    """Return the conditions under which an edge that forwards bytes refuses visitors. They come from the modules of the
    edge and its routes.
    """
    parts = (edge.modules, *(route.modules for route in edge.routes))
    modules = [part.get(ip_restriction.MODULE) for part in parts]
    refusals = tuple(refusal for module in modules for refusal in ip_policies.find_refusals(module, view.policies))
    return ip_policies.REFUSE_ALL if ip_policies.has_too_many([refusals]) else refusals


def _destinations(edge: ServedEdge, view: AccountView) -> Destinations:
    return streams.find_destinations(edge, view.backends) if edge.is_stream else Destinations()


def _plan_host(
    edge: ServedEdge, name: str, view: AccountView, now: datetime, destinations: Destinations
) -> PlannedHost:
    decision = states.decide_host(edge, _gather_facts(edge, name, view, now, destinations))
    return PlannedHost(name, decision.state, decision.error, decision.certificate)


def _gather_facts(
    edge: ServedEdge, name: str, view: AccountView, now: datetime, destinations: Destinations
) -> HostFacts:
    """Return the inputs of the decision about the state of an edge's host."""
    ends_here = not port_of(name) and edge.terminate_at != "upstream"
    certificate = (view.certificate(edge.account, name, now) or "") if ends_here else ""
    return HostFacts(
        name,
        view.may_serve(edge.account, name),
        view.reservation_of(edge.account, name),
        view.authorities_of(edge),
        states.describe_port(edge, name, view.tcp_ports, view.edge_at_port(port_of(name))) if port_of(name) else "",
        destinations.refusal,
        f"{destinations.error} {_describe_restrictions(edge, view)}".strip(),
        _is_proxied(edge, name, view) != _is_proxied(edge, edge.hosts[0], view),
        certificate,
        view.is_covered(certificate, name),
        view.certificate_error(edge.account, name),
    )


def _describe_restrictions(edge: ServedEdge, view: AccountView) -> str:
    """Return the problems with the IP policies of an edge.

    If the edge forwards connections as bytes, this includes the IP policies of its routes.
    """
    routes = edge.routes if edge.is_stream else ()
    parts = (edge.modules, *(route.modules for route in routes))
    modules = [part.get(ip_restriction.MODULE) for part in parts]
    problems = [ip_policies.describe_problems(module, view.policies) for module in modules]
    is_closed = edge.is_stream and _find_stream_refusals(edge, view) == ip_policies.REFUSE_ALL
    if is_closed and not any(problems):
        problems.append(ip_policies.TOO_MANY)
    return " ".join(filter(None, problems))


def _is_proxied(edge: ServedEdge, name: str, view: AccountView) -> bool:
    """Return whether the reservation of an edge's name requires the PROXY protocol on connections to upstreams."""
    if port := port_of(name):
        return port in map(port_of, edge.proxied)
    reservation = view.reservation_of(edge.account, name)
    return reservation is not None and reservation.proxy_protocol


def _precedence(route: ServedRoute) -> tuple[bool, int, str]:
    """Return a sort key that puts exact paths first, and longer prefixes before shorter ones."""
    return route.match_type != "exact_path", -len(route.match), route.id


def _plan_target(
    edge: ServedEdge, route: ServedRoute, view: AccountView, edge_refusals: tuple[Condition, ...]
) -> RouteTarget:
    """Return the target of a route. `edge_refusals` are the conditions under which the edge refuses a visitor."""
    decision = states.decide_route(edge, route, view.service.managed_apps)
    module = route.modules.get(backend.MODULE)
    attached = module.backend_id if module else None
    restriction = route.modules.get(ip_restriction.MODULE)
    refusals = (*edge_refusals, *ip_policies.find_refusals(restriction, view.policies))
    if decision.closed or not attached:
        return RouteTarget(route, page=_PAGES[decision.closed], error=decision.error, refusals=refusals)
    shared = shares.resolve(attached, edge.account, view.backends)
    page = "" if shared.weights else pages.NO_BACKEND
    sign_in = route.modules.get(oauth.MODULE)
    rule = sign_in.of_route(edge.account, edge.id, route.id) if sign_in else None
    error = f"{shared.error} {ip_policies.describe_problems(restriction, view.policies)}".strip()
    return RouteTarget(route, shared.weights, page, error, _select_online(shared.weights, view), rule, refusals)


def _select_online(weights: tuple[tuple[str, int], ...], view: AccountView) -> tuple[tuple[str, int], ...]:
    """Return the backends that can answer now, with weights, or all backends if none can.

    HTTP responses can always answer. A tunnel group can answer if one of its tunnels is online.
    """
    if len(weights) < 2:
        return weights
    usable = ((id, weight) for id, weight in weights if not streams.is_group(id) or view.is_online(id))
    return tuple(usable) or weights


def _names_served_elsewhere(edge: ServedEdge, view: AccountView) -> Iterator[str]:
    """Yield the names that other edges, tunnels or accounts have one label below an edge's wildcards."""
    hosts = set(edge.hosts)
    for name in hosts:
        if name.startswith("*."):
            yield from (child for child in view.names_below(name[2:]) if child not in hosts)
