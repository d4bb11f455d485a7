"""Destinations of edges that forward bytes: TLS edges, TCP edges, and HTTPS edges with TLS upstream. Does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from chalicelib.model.base import kinds
from chalicelib.model.edges import traffic_policies
from chalicelib.model.edges.modules import backend, traffic_policy
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge
from chalicelib.model.serving import shares, states

_NO_BACKEND = "The edge has no backend."
_NO_GROUP = "The backend contains no tunnel group, which connections need."
_ONE_ROUTE = "If TLS ends upstream, the edge must have exactly one route, with the path_prefix /."
_NO_ROUTE_BACKEND = "The route has no backend."


@dataclass(frozen=True)
class Destinations:
    """The backends of an edge's connections, with weights.

    Connections for a backend that is an HTTP response are closed. `refusal` gives the reason why all connections are
    refused. `error` gives the reason why some connections are refused.
    """

    weights: tuple[tuple[str, int], ...] = ()
    error: str = ""
    refusal: str = ""

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Return the ids of the edge's tunnel groups, with weights."""
        return tuple((id, weight) for id, weight in self.weights if is_group(id))

    @property
    def responses(self) -> tuple[tuple[str, int], ...]:
        """Return the ids of the edge's HTTP responses, with weights."""
        return tuple((id, weight) for id, weight in self.weights if not is_group(id))


def is_group(backend: str) -> bool:
    return kinds.identify(backend) is kinds.TUNNEL_GROUPS


def find_destinations(edge: ServedEdge, backends: Mapping[str, ServedBackend]) -> Destinations:
    """Return the destinations of an edge's connections."""
    modules = edge.modules
    if error := states.describe_unenforced(edge.modules.unenforced) or _policy_error(edge):
        return Destinations(refusal=error)
    if edge.kind is kinds.HTTPS_EDGES:
        if error := _plaintext_error(edge):
            return Destinations(refusal=error)
        modules = edge.routes[0].modules
    module = modules.get(backend.MODULE)
    attached = module.backend_id if module else None
    if not attached:
        return Destinations(refusal=_NO_ROUTE_BACKEND if edge.kind is kinds.HTTPS_EDGES else _NO_BACKEND)
    backend_shares = shares.resolve(attached, edge.account, backends)
    destinations = Destinations(backend_shares.weights, backend_shares.error)
    answers = [
        f"The backend {id} is an HTTP response, so its share of the connections is closed: only an HTTPS route can "
        "use it."
        for id, _ in destinations.responses
    ]
    error = " ".join([*filter(None, [backend_shares.error]), *answers])
    if not destinations.groups:
        return Destinations(refusal=f"{_NO_GROUP} {error}".rstrip())
    return replace(destinations, error=error)


def _policy_error(edge: ServedEdge) -> str:
    policy = edge.modules.get(traffic_policy.MODULE)
    return traffic_policies.describe_unsupported(policy.value) if policy else ""


def _plaintext_error(edge: ServedEdge) -> str:
    """Return the reason why an HTTPS edge cannot forward TLS without decrypting it, or ""."""
    if [(route.match_type, route.match) for route in edge.routes] != [("path_prefix", "/")]:
        return _ONE_ROUTE
    needing = [
        *_plaintext_modules(edge.modules),
        *edge.routes[0].modules.unenforced,
        *_plaintext_modules(edge.routes[0].modules),
    ]
    return f"If TLS ends upstream, these modules must not be enabled: {', '.join(needing)}." if needing else ""


def _plaintext_modules(modules: Modules) -> list[str]:
    """Return the enabled modules that need decrypted traffic."""
    return [module.name for module, _ in modules.declared if module.needs_plaintext]
