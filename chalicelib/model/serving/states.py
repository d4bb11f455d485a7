"""The states of an edge's hostports and routes, decided from the records. This file does no I/O."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from chalicelib.model.edges import match_costs, user_agents
from chalicelib.model.edges.modules import backend, mutual_tls, oauth, user_agent_filter
from chalicelib.model.edges.served import ServedAuthority, ServedEdge, ServedRoute, port_of
from chalicelib.model.names.reservations import ServedReservation

_UNPROVED = "The account has not proved the domain: verify its reservation."
_NO_CERTIFICATE = "No TLS certificate of the account covers the host: upload one for {names}."
_UNCOVERED = (
    "No TLS certificate covers the host: upload one for {names}. Until then, visitors get the operator's certificate."
)
_NO_AUTHORITY = "A certificate authority that the module mutual_tls names does not exist."
_UNREADABLE_AUTHORITY = "The stored certificate authority that the module mutual_tls names is malformed."
_OTHER_PORT = "The port is not open: {port} is outside of TCP_PORTS, {first} to {last}."
_NO_PORTS = "No port is open: the operator has set no TCP_PORTS."
_NO_PORT = "The account does not own the port: add a hostport with this port below TUNNEL_DOMAIN."
_PORT_TAKEN = "Another edge of the account already has the port."
_UNREADABLE = "The stored reservation of the host is malformed: contact the operator."
_DIFFERENT_PROXY_PROTOCOL = (
    "The reservations of this host and of the edge's first host differ in proxy_protocol: set the same value in both."
)
_COSTLY = "The user agent filter needs {} RE2 instructions per byte, and at most {} are allowed."
_NO_MANAGED_APP = "This service has no managed application for {}: set client_id and client_secret."
_NO_PATH = "No request can match the path, since it contains ? or #."


@dataclass(frozen=True)
class HostFacts:
    """The inputs of the decision about the state of an edge's host (for a TCP edge, of a host:port).

    `reservation` is the account's reservation that covers the host. `port_error` is the reason why a TCP edge has no
    port. `refusal` is the reason why connections for the host cannot be forwarded. `error` describes a problem with the
    backends. `certificate` is the id of the host's certificate, or "". `certificate_error` is Envoy's error about a
    certificate that covers the host. All errors are "" if there is no problem.
    """

    name: str
    is_allowed: bool
    reservation: ServedReservation | None = None
    authorities: Sequence[ServedAuthority | None] = ()
    port_error: str = ""
    refusal: str = ""
    error: str = ""
    has_other_proxy_protocol: bool = False
    certificate: str = ""
    is_covered: bool = False
    certificate_error: str = ""


@dataclass(frozen=True)
class HostState:
    """The state of a host. `error` gives the reason why it is closed, or describes another problem.

    A host without a certificate that covers its name answers with the operator's certificate, but is not live.
    """

    state: Literal["live", "unproved", "refused"]
    error: str = ""
    certificate: str = ""


@dataclass(frozen=True)
class RouteState:
    """The state of a route, and the reason why it is closed.

    A route without a backend answers with a page, which is not an error.
    """

    closed: Literal["", "not_enforced", "no_backend"] = ""
    error: str = ""


def decide_host(edge: ServedEdge, facts: HostFacts) -> HostState:
    """Return the state of a host of an edge. The owner is checked first, and the certificate last."""
    if not facts.is_allowed:
        return HostState("unproved", _UNPROVED)
    if error := edge.error or facts.port_error or _reservation_error(facts) or facts.refusal:
        return HostState("refused", error)
    if error := _authority_error(edge, facts.authorities):
        return HostState("refused", error)
    if facts.has_other_proxy_protocol:
        return HostState("refused", _DIFFERENT_PROXY_PROTOCOL)
    if port_of(facts.name) or edge.terminate_at == "upstream":
        return HostState("live", facts.error)
    error = f"Envoy rejected a certificate: {facts.certificate_error}" if facts.certificate_error else facts.error
    if facts.certificate and facts.is_covered:
        return HostState("live", error, facts.certificate)
    missing = (_UNCOVERED if facts.certificate else _NO_CERTIFICATE).format(names=_covering_names(facts.name))
    return HostState("refused", f"{missing} {error}".rstrip(), facts.certificate)


def decide_route(edge: ServedEdge, route: ServedRoute, managed_apps: Set[str]) -> RouteState:
    """Return the state of a route. Its backend's state is not considered.

    `managed_apps` are the providers for which the operator has a managed OAuth application.
    """
    unenforced = describe_unenforced(edge.modules.unenforced) or describe_unenforced(route.modules.unenforced)
    if error := unenforced or _filter_cost_error(route) or _application_error(route, managed_apps):
        return RouteState("not_enforced", error)
    if set("?#") & set(route.match):
        return RouteState("no_backend", _NO_PATH)
    has_backend = (attached := route.modules.get(backend.MODULE)) and attached.backend_id
    return RouteState() if has_backend else RouteState("no_backend")


def describe_port(edge: ServedEdge, name: str, ports: range, port_edge: ServedEdge | None) -> str:
    """Return why a TCP edge cannot have its port, or "". `port_edge` is the edge that has the port."""
    if not (port := port_of(name)):
        return ""
    if int(port) not in ports:
        return _OTHER_PORT.format(port=port, first=ports[0], last=ports[-1]) if ports else _NO_PORTS
    if port_edge is None or port_edge.account != edge.account:
        return _NO_PORT
    return "" if port_edge.id == edge.id else _PORT_TAKEN


def describe_unenforced(modules: tuple[str, ...]) -> str:
    """Return an error about enabled modules that the live edge cannot enforce, or ""."""
    return f"The edge cannot enforce these enabled modules: {', '.join(modules)}." if modules else ""


def _reservation_error(facts: HostFacts) -> str:
    is_readable = port_of(facts.name) or facts.reservation is None or facts.reservation.is_readable
    return "" if is_readable else _UNREADABLE


def _application_error(route: ServedRoute, managed_apps: Set[str]) -> str:
    """Return the reason why no OAuth application can sign in visitors of a route, or ""."""
    rule = route.modules.get(oauth.MODULE)
    is_lacking = rule is not None and not rule.client_id and rule.provider not in managed_apps
    return _NO_MANAGED_APP.format(rule.provider) if rule and is_lacking else ""


def _authority_error(edge: ServedEdge, authorities: Sequence[ServedAuthority | None]) -> str:
    """Return the reason why mutual TLS cannot accept any client, or ""."""
    if edge.modules.get(mutual_tls.MODULE) and not (authorities and all(authorities)):
        return _NO_AUTHORITY
    return "" if all(authority.pem for authority in authorities if authority) else _UNREADABLE_AUTHORITY


def _covering_names(host: str) -> str:
    """Return the certificate names that would cover a host, as text."""
    domain = host.partition(".")[2]
    return host if host.startswith("*.") or "." not in domain else f"{host} or *.{domain}"


def _filter_cost_error(route: ServedRoute) -> str:
    """Return an error if a route's user agent filter costs too much to match, or "".

    Only earlier versions stored such filters. Envoy itself reports filters that do not compile.
    """
    rules = route.modules.get(user_agent_filter.MODULE)
    try:
        cost = user_agents.matching_cost(rules) if rules else 0
    except match_costs.Uncompilable:
        return ""
    return _COSTLY.format(cost, user_agents.MAX_COST) if cost > user_agents.MAX_COST else ""
