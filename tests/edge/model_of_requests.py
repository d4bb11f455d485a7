"""What a request to an edge meets, told as plainly as the documentation: the edge is compared with it.

It knows the records alone, and neither plans nor Envoy. Where chance decides, all that may come are given.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

import re2

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.ip_policies import ServedPolicy
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels.tunnels import ServedTunnel

REFUSED, CLOSED, ODD = "the handshake is refused", "the connection is closed", range(100, 200)
_VERSIONS = ("1.0", "1.1", "1.2", "1.3")
Meets = frozenset[str]
_SHUT: Meets = frozenset({REFUSED})
BYTES = re2.Options()  # Envoy reads byte by byte
BYTES.encoding = re2.Options.Encoding.LATIN1


@dataclass(frozen=True)
class Records:
    """All that there is, by id; every gateway is up, and names below the domain have the operator's certificate."""

    edges: Mapping[str, ServedEdge] = field(default_factory=dict)
    backends: Mapping[str, ServedBackend] = field(default_factory=dict)
    authorities: Mapping[str, ServedAuthority] = field(default_factory=dict)
    tunnels: Mapping[str, ServedTunnel] = field(default_factory=dict)
    policies: Mapping[str, ServedPolicy] = field(default_factory=dict)
    reservations: Mapping[str, ServedReservation] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A request on a connection of its own; `client` is the authority that signed its certificate, "" for none.

    `visitor` is the address that it comes from.
    """

    host: str
    path: str
    agents: tuple[str, ...] = ()
    client: str = ""
    version: str = "1.3"
    visitor: str = "127.0.0.1"


def meets(request: Request, records: Records) -> Meets:
    """Return what the request may meet: a page by its status, a tunnel or a response by its id, or no handshake.

    Of an edge that passes connections on as bytes it is their tunnel.
    """
    edge = _edge(request.host, records)
    if edge is None and _VERSIONS.index(request.version) < _VERSIONS.index("1.2"):
        return frozenset({REFUSED})
    if edge is None:
        tunnels = sorted(
            (tunnel for tunnel in records.tunnels.values() if tunnel.name == request.host), key=lambda tunnel: tunnel.id
        )
        if not tunnels:
            return frozenset({"404"})
        return frozenset({tunnels[-1].id if _is_admitted(request, tunnels[-1].account, records) else "403"})
    if edge.error:
        return frozenset({REFUSED})
    if edge.terminate_at == "upstream":
        if not _is_untouched(edge) or not _admits(edge.routes[0].modules, edge, request, records):
            return frozenset({REFUSED})
        return _meet_bytes(edge.routes[0], edge, records) if _admits(edge.modules, edge, request, records) else _SHUT
    if edge.id.startswith("edgtls_") and not _admits(edge.modules, edge, request, records):
        return _SHUT
    if not _is_open(edge, request, records):
        return frozenset({REFUSED})
    if edge.id.startswith("edgtls_"):
        return _meet_bytes(edge, edge, records)
    return _meet_edge(edge, request, records)


def _meet_edge(edge: ServedEdge, request: Request, records: Records) -> Meets:
    """Return what a request to an HTTPS edge meets behind its handshake."""
    if not _admits(edge.modules, edge, request, records):
        return frozenset({"403"})
    if edge.modules.unenforced:
        return frozenset({"503"})
    path = request.path.partition("?")[0]
    if any(text in path for text in ("//", "/../", "%")) and _is_held_back(edge):
        return frozenset({"400"})
    route = _route(edge, path)
    if route is None:
        return frozenset({"404"})
    if route.modules.unenforced:
        return frozenset({"503"})
    backend_module = route.modules.values.get("backend")
    backend = backend_module.backend_id if backend_module else None
    backends = _leads_to(backend, edge.account, records) if backend else []
    if not backends:
        return frozenset({"503"})
    if not _admits(route.modules, edge, request, records):
        return frozenset({"403"})
    rules = route.modules.values.get("user_agent_filter")
    if rules and not _passes(request.agents, rules):
        return frozenset({"403"})
    if route.modules.values.keys() & {"basic_auth", "webhook_verification"}:
        return frozenset({"503"})  # no service verifies them
    answers = frozenset(answer for backend in backends for answer in _list_answers(backend, records))
    return answers - {"503"} or answers


def _admits(modules: Modules, edge: ServedEdge, request: Request, records: Records) -> bool:
    """Tell whether the IP policies of a module let the visitor pass: one allows the address, and none denies it."""
    restriction = modules.values.get("ip_restriction")
    return restriction is None or _allow(restriction.ip_policy_ids, edge.account, request, records)


def _is_admitted(request: Request, account: str, records: Records) -> bool:
    """Tell whether the reservation of a tunnel's name lets the visitor pass."""
    reservations = [
        reservation
        for reservation in records.reservations.values()
        if reservation.domain == request.host and reservation.account == account
    ]
    modules = reservations[0].modules if reservations else {}
    if modules.keys() - {"ip_restriction"} or not all(reservation.is_readable for reservation in reservations):
        return False  # what cannot be understood
    restriction = modules.get("ip_restriction", {"enabled": False})
    return not restriction["enabled"] or _allow(restriction["ip_policy_ids"], account, request, records)


def _allow(ids: Iterable[str], account: str, request: Request, records: Records) -> bool:
    named_policies = [records.policies.get(id) for id in ids]
    policies = [policy for policy in named_policies if policy and policy.account == account]
    address, rules = ip_address(request.visitor), [policy.rules for policy in policies if policy.rules]
    if len(rules) < len(policies):
        return False  # a record that cannot be understood
    is_allowed = any(address in network for policy_rules in rules for network in policy_rules.allow)
    return is_allowed and not any(address in network for policy_rules in rules for network in policy_rules.deny)


def _edge(host: str, records: Records) -> ServedEdge | None:
    """Return the edge that listens on the host, else the one that does on all names directly below its domain."""
    for name in (host, f"*.{host.partition('.')[2]}"):
        for edge in records.edges.values():
            if f"{name}:443" in edge.hostports:
                return edge
    return None


def _is_open(edge: ServedEdge, request: Request, records: Records) -> bool:
    termination, mutual = edge.modules.values.get("tls_termination"), edge.modules.values.get("mutual_tls")
    least = (termination.min_version if termination else None) or "1.2"
    if _VERSIONS.index(request.version) < _VERSIONS.index(least):
        return False
    if mutual is None:
        return True
    authorities = [records.authorities.get(id) for id in mutual.certificate_authority_ids]
    is_whole = bool(authorities) and all(
        authority and authority.pem and authority.account == edge.account for authority in authorities
    )
    return is_whole and request.client in mutual.certificate_authority_ids


def _is_untouched(edge: ServedEdge) -> bool:
    """Tell whether an edge can do what it is to do without reading what TLS hides."""
    if [(route.match_type, route.match) for route in edge.routes] != [("path_prefix", "/")]:
        return False
    of_edge, of_route = edge.modules, edge.routes[0].modules
    reading = [module for modules in (of_edge, of_route) for module, _ in modules.declared if module.needs_plaintext]
    return not (of_edge.unenforced or of_route.unenforced or reading)


def _meet_bytes(part: ServedEdge | ServedRoute, edge: ServedEdge, records: Records) -> Meets:
    """Return what connections of bytes meet by the backend of an edge or route."""
    modules = part.modules
    backend_module = modules.values.get("backend")
    id = backend_module.backend_id if backend_module else None
    backends = _leads_to(id, edge.account, records) if id else []
    groups = [backend for backend in backends if isinstance(backend.value, TunnelGroup)]
    if not groups or modules.unenforced:
        return frozenset({REFUSED})
    tunnels = {answer for group in groups for answer in _list_answers(group, records)} - {"503"}
    return frozenset(tunnels) | ({CLOSED} if len(groups) < len(backends) or not tunnels else set())


def _is_held_back(edge: ServedEdge) -> bool:
    """Tell whether one of several routes keeps visitors from what it leads to."""
    modules = [route.modules for route in edge.routes]
    keeps_visitors = [
        route_modules.unenforced or not all(module.admits_ambiguous_paths for module, _ in route_modules.declared)
        for route_modules in modules
    ]
    return any(keeps_visitors) and len(edge.routes) > 1


def _route(edge: ServedEdge, path: str) -> ServedRoute | None:
    exact = [route for route in edge.routes if route.match_type == "exact_path" and route.match == path]
    prefixes = [route for route in edge.routes if route.match_type == "path_prefix" and path.startswith(route.match)]
    return next(iter(exact + sorted(prefixes, key=lambda route: len(route.match), reverse=True)), None)


def _passes(agents: Iterable[str], rules: UserAgentModule) -> bool:
    """Tell whether a request passes: several headers are one, with commas between those that are not empty."""
    agents = list(agents)
    agent = ",".join(filter(None, agents))
    return _finds(rules.allow, agent) or (bool(agents) and not _finds(rules.deny, agent))


def _finds(patterns: Iterable[str], text: str) -> bool:
    return any(re2.search(pattern.encode(), text.encode(), BYTES) for pattern in patterns)


def _leads_to(id: str, account: str, records: Records) -> list[ServedBackend]:
    """Return the groups and responses that a backend comes to; none where one on the way cannot be understood."""
    backend, reached = records.backends.get(id), _list_reached(id, account, records)
    if backend is None or backend.account != account or id in reached:
        return []
    if any(
        backend.value is None
        for backend in records.backends.values()
        if backend.id in {id, *reached} and backend.account == account
    ):
        return []
    if not isinstance(backend.value, Weighted):
        return [] if isinstance(backend.value, HttpResponse) and backend.value.status_code in ODD else [backend]
    children = [child for child, weight in backend.value.backends.items() if weight > 0]
    return [leaf for child in children for leaf in _leads_to(child, account, records)]


def _list_reached(id: str, account: str, records: Records) -> set[str]:
    """Return the ids of all that a backend leads to."""
    waiting, reached = _list_children(id, account, records), set[str]()
    while waiting:
        child = waiting.pop()
        if child not in reached:
            reached.add(child)
            waiting += _list_children(child, account, records)
    return reached


def _list_children(id: str, account: str, records: Records) -> list[str]:
    backend = records.backends.get(id)
    if backend is None or backend.account != account or not isinstance(backend.value, Weighted):
        return []
    return [child for child, weight in backend.value.backends.items() if weight > 0]


def _list_answers(backend: ServedBackend, records: Records) -> list[str]:
    if isinstance(backend.value, HttpResponse):
        return [backend.id]
    assert isinstance(backend.value, TunnelGroup)
    labels = backend.value.labels.items()
    tunnels = [tunnel for tunnel in records.tunnels.values() if tunnel.account == backend.account]
    return [tunnel.id for tunnel in tunnels if labels and labels <= tunnel.labels.items()] or ["503"]
