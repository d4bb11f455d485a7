"""The plan of an edge: the state of its hosts, and the target of each route. Pure."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Literal, TypeAlias

from chalicelib.model.edges import match_costs, user_agents
from chalicelib.model.edges.served import ServedEdge, ServedRoute
from edge.plan import pages, shares, streams
from edge.plan.account_view import AccountView
from edge.plan.edge_index import hosts_of, port_of
from edge.plan.streams import Destinations, unenforced_error
from edge.plan.world import World

Names: TypeAlias = World | AccountView  # the decisions about names
State = Literal["live", "unproved", "refused", "waiting"]
_UNPROVED = "The account has not proved the domain: verify its reservation."
_NO_CERTIFICATE = "No TLS certificate of the account covers the host: upload one for {names}."
_UNCOVERED = "No TLS certificate covers the host: upload one for {names}. Until then the operator's is shown."
_NOT_READY = "The account's TLS certificates are being read."
_NO_AUTHORITY = "A certificate authority of mutual_tls does not exist."
_UNREADABLE_AUTHORITY = "The record of a certificate authority of mutual_tls is malformed."
_OTHER_PORT = "No port is open: {port} is outside of TCP_PORTS, {first} to {last}."
_NO_PORTS = "No port is open: the operator has set no TCP_PORTS."
_NO_PORT = "The account does not have the port: add a hostport at TUNNEL_DOMAIN with the same port."
_PORT_TAKEN = "Another edge of the account already has the port."
_UNREADABLE = "The record of the host's reservation is malformed."
_DIFFERENT_PROXY_PROTOCOL = "Its reservation and the one of the edge's first host differ in proxy_protocol."
_COSTLY = "The user agent filter needs {} RE2 instructions per byte, and at most {} are allowed."
_NO_PATH = "No request can match the path, since it contains ? or #."


@dataclass(frozen=True)
class PlannedHost:
    """The state of an edge's host, or of host:port for a TCP edge.

    `certificate` is set if the host answers and its TLS ends here. `error` says why a host is closed, or describes a
    problem. A host without a matching certificate answers with the operator's certificate, but is not live.
    """

    name: str
    state: State
    error: str = ""
    certificate: str = ""

    @property
    def answers(self) -> bool:
        """Return whether handshakes or connections are accepted."""
        return self.state == "live" or bool(self.certificate)


@dataclass(frozen=True)
class RouteTarget:
    """The target of a route: backends by weight, or a page if the route is closed.

    `error` describes a problem. `online` are the backends that can answer now, by weight, or all if none can.
    """

    route: ServedRoute
    weights: tuple[tuple[str, int], ...] = ()
    page: str = ""
    error: str = ""
    online: tuple[tuple[str, int], ...] = ()

    @property
    def restricts_visitors(self) -> bool:
        """Return whether a module keeps some visitors from the target."""
        return bool(self.route.modules.user_agent_filter) or self.page == pages.NOT_ENFORCED


@dataclass(frozen=True)
class Plan:
    """How an edge is served.

    `served_elsewhere` are names below its wildcards that it does not answer. `trusted` are the certificates of its
    authorities, PEM. `page` answers all requests of a closed edge. With `is_proxied`, upstreams get the visitor's
    address by the PROXY protocol. `unreserved` hosts refuse challenges of certificate authorities.
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

    @property
    def is_stream(self) -> bool:
        """Return whether the edge forwards connections as bytes."""
        return streams.is_stream(self.edge)

    @property
    def certificates(self) -> dict[str, str]:
        """Return the certificate ids of the hosts that answer, by host."""
        return {host.name: host.certificate for host in self.hosts if host.answers}

    @property
    def backends(self) -> frozenset[str]:
        """Return the ids of the edge's tunnel groups and HTTP responses."""
        every = (*self.destinations.groups, *(it for target in self.targets for it in target.weights))
        return frozenset(id for id, _ in every)

    @property
    def routes_name(self) -> str:
        """Return the name of the edge's routes, which changes with its requirements on handshakes.

        Connections that passed earlier requirements then find no routes.
        """
        return f"edge/{self.edge.id}/{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Return a digest of the edge's requirements on handshakes."""
        termination = self.edge.modules.tls_termination
        asked = [termination.min_version or "" if termination else "", *self.trusted]
        return hashlib.sha256("\n".join(asked).encode()).hexdigest()[:12]


def close_refused(before: Plan, error: str) -> Plan:
    """Return the plan of an edge after Envoy rejected its routes.

    Envoy keeps the earlier routes, which might accept visitors that the new ones refuse. So the edge is closed if any
    new route restricts visitors. Otherwise the plan is unchanged.
    """
    if not any(it.restricts_visitors for it in before.targets):
        return before
    shut = RouteTarget(before.targets[0].route, page=pages.NOT_ENFORCED, error=error)
    targets = (replace(shut, route=it.route) for it in before.targets)
    return replace(before, targets=tuple(targets), page=pages.NOT_ENFORCED)


def rebalance(before: Plan, world: Names) -> Plan:
    """Return a plan with the backends that are online now."""
    targets = tuple(replace(it, online=_online(it.weights, world)) for it in before.targets)
    return replace(before, targets=targets)


def listener_name(edge: str, certificate: str) -> str:
    """Return the name of an edge's listener for a certificate, "" if TLS ends upstream."""
    return f"edge/{edge}/{certificate or 'upstream'}"


def make_plan(edge: ServedEdge, world: Names, now: datetime) -> Plan:
    """Return the plan of an edge at a time."""
    destinations = _destinations(edge, world)
    hosts = tuple(_plan_host(edge, name, world, now, destinations) for name in hosts_of(edge))
    trusted = tuple(it.pem for it in world.authorities_of(edge) if it)
    is_proxied = _is_proxied(edge, hosts[0].name, world) if hosts else False
    if streams.is_stream(edge):
        return Plan(edge, hosts, trusted=trusted, destinations=destinations, is_proxied=is_proxied)
    targets = tuple(_plan_target(edge, route, world) for route in sorted(edge.routes, key=_precedence))
    page = pages.NOT_ENFORCED if edge.modules.unenforced else ""
    unreserved = tuple(it for it in hosts_of(edge) if world.refuses_challenges(edge.account, it))
    elsewhere = tuple(_names_served_elsewhere(edge, world))
    return Plan(edge, hosts, elsewhere, trusted, targets, page, is_proxied=is_proxied, unreserved=unreserved)


def plan_host(edge: ServedEdge, name: str, world: Names, now: datetime) -> PlannedHost:
    """Return the state of one of an edge's hosts."""
    return _plan_host(edge, name, world, now, _destinations(edge, world))


def _destinations(edge: ServedEdge, world: Names) -> Destinations:
    return streams.find_destinations(edge, world.backends) if streams.is_stream(edge) else Destinations()


def _plan_host(edge: ServedEdge, name: str, world: Names, now: datetime, destinations: Destinations) -> PlannedHost:
    if not world.may_serve(edge.account, name):
        return PlannedHost(name, "unproved", _UNPROVED)
    refusal = edge.error or _port_error(edge, name, world) or _reservation_error(edge, name, world)
    if error := refusal or destinations.refusal or _authority_error(edge, world):
        return PlannedHost(name, "refused", error)
    is_other = _is_proxied(edge, name, world) != _is_proxied(edge, hosts_of(edge)[0], world)
    if port_of(name):
        return (
            PlannedHost(name, "refused", _DIFFERENT_PROXY_PROTOCOL)
            if is_other
            else PlannedHost(name, "live", destinations.error)
        )
    if name not in world.ready_hosts(edge.account):
        return PlannedHost(name, "waiting", _NOT_READY)
    if is_other:
        return PlannedHost(name, "refused", _DIFFERENT_PROXY_PROTOCOL)
    if edge.terminate_at == "upstream":
        return PlannedHost(name, "live", destinations.error)
    certificate, refusal = world.certificate(edge.account, name, now), world.certificate_error(edge.account, name)
    error = f"A certificate was refused: {refusal}" if refusal else destinations.error
    if certificate and world.is_covered(certificate, name):
        return PlannedHost(name, "live", error, certificate)
    missing = (_UNCOVERED if certificate else _NO_CERTIFICATE).format(names=_covering_names(name))
    return PlannedHost(name, "refused", f"{missing} {error}".rstrip(), certificate or "")


def _covering_names(host: str) -> str:
    """Return the certificate names that would cover a host, as text."""
    domain = host.partition(".")[2]
    return host if host.startswith("*.") or "." not in domain else f"{host} or *.{domain}"


def _is_proxied(edge: ServedEdge, name: str, world: Names) -> bool:
    """Return whether upstreams of a name read the PROXY protocol."""
    if port := port_of(name):
        return port in map(port_of, edge.proxied)
    held = world.reservation_of(edge.account, name)
    return held is not None and held.proxy_protocol


def _reservation_error(edge: ServedEdge, name: str, world: Names) -> str:
    """Return an error if a host's reservation is malformed, or ""."""
    held = None if port_of(name) else world.reservation_of(edge.account, name)
    return "" if held is None or held.is_readable else _UNREADABLE


def _port_error(edge: ServedEdge, name: str, world: Names) -> str:
    """Return why a TCP edge cannot have its port, or ""."""
    if not (port := port_of(name)):
        return ""
    if int(port) not in (ports := world.tcp_ports):
        return _OTHER_PORT.format(port=port, first=ports[0], last=ports[-1]) if ports else _NO_PORTS
    holder = world.edge_at_port(port)
    if holder is None or holder.account != edge.account:
        return _NO_PORT
    return "" if holder.id == edge.id else _PORT_TAKEN


def _authority_error(edge: ServedEdge, world: Names) -> str:
    """Return why mutual TLS cannot accept any client, or ""."""
    authorities = world.authorities_of(edge)
    if edge.modules.mutual_tls and not (authorities and all(authorities)):
        return _NO_AUTHORITY
    return "" if all(it.pem for it in authorities if it) else _UNREADABLE_AUTHORITY


def _precedence(route: ServedRoute) -> tuple[bool, int, str]:
    """Return the sort key of a route: exact paths first, then longer prefixes."""
    return route.match_type != "exact_path", -len(route.match), route.id


def _plan_target(edge: ServedEdge, route: ServedRoute, world: Names) -> RouteTarget:
    if (
        error := unenforced_error(edge.modules.unenforced)
        or unenforced_error(route.modules.unenforced)
        or _filter_cost_error(route)
    ):
        return RouteTarget(route, page=pages.NOT_ENFORCED, error=error)
    if set("?#") & set(route.match):
        return RouteTarget(route, page=pages.NO_BACKEND, error=_NO_PATH)
    attached = route.modules.backend.backend_id if route.modules.backend else None
    if not attached:
        return RouteTarget(route, page=pages.NO_BACKEND)
    found = shares.resolve(attached, edge.account, world.backends)
    page = "" if found.weights else pages.NO_BACKEND
    return RouteTarget(route, found.weights, page, found.error, _online(found.weights, world))


def _online(weights: tuple[tuple[str, int], ...], world: Names) -> tuple[tuple[str, int], ...]:
    """Return HTTP responses and groups with tunnels, by weight, or all backends if none can answer."""
    if len(weights) < 2:
        return weights
    found = ((id, weight) for id, weight in weights if not streams.is_group(id) or world.is_online(id))
    return tuple(found) or weights


def _filter_cost_error(route: ServedRoute) -> str:
    """Return an error if a route's filter, stored by an earlier version, costs too much, or "".

    Envoy itself reports filters that do not compile.
    """
    rules = route.modules.user_agent_filter
    try:
        cost = user_agents.matching_cost(rules) if rules else 0
    except match_costs.Uncompilable:
        return ""
    return _COSTLY.format(cost, user_agents.MAX_COST) if cost > user_agents.MAX_COST else ""


def _names_served_elsewhere(edge: ServedEdge, world: Names) -> Iterator[str]:
    """Yield the names directly below an edge's wildcards that the edge does not serve."""
    own = set(hosts_of(edge))
    for name in own:
        if name.startswith("*."):
            yield from (it for it in world.names_below(name[2:]) if it not in own)
