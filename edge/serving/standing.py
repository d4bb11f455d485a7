"""The planned status of an edge, and the Envoy resources that it depends on. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from chalicelib.model.edges.served import ServedEdge, port_of
from chalicelib.model.serving import pages
from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget, State, listener_name
from chalicelib.model.serving.sites import OPERATOR
from chalicelib.model.serving.streams import is_group
from edge.envoy import clusters, listeners
from edge.envoy.resources import NAME_PREFIX, Key


@dataclass(frozen=True)
class PlannedHostport:
    """A hostport of an edge, which is live once Envoy accepts the resources in `keys`.

    `certificate_id` is "" and `not_after` None for the operator's certificate.
    """

    hostport: str
    state: State
    error: str = ""
    certificate_id: str = ""
    not_after: datetime | None = None
    keys: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class PlannedRoute:
    """A route, which has its state once Envoy accepts the resources in `keys`."""

    id: str
    state: State
    error: str = ""
    keys: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class PlannedStatus:
    """The planned status of an edge. `backends` are its tunnel groups with their number of tunnels."""

    edge: ServedEdge
    hostports: tuple[PlannedHostport, ...]
    routes: tuple[PlannedRoute, ...]
    backends: tuple[tuple[str, int], ...]


def plan_status(plan: Plan, view: AccountView) -> PlannedStatus:
    """Return the planned status of an edge."""
    groups = sorted(filter(is_group, plan.backends))
    counted = tuple((id, len(view.members(view.backends[id]))) for id in groups)
    routes = tuple(_plan_route(plan, target) for target in plan.targets) or _stream_routes(plan)
    return PlannedStatus(plan.edge, tuple(_plan_hostport(plan, host, view) for host in plan.hosts), routes, counted)


def _plan_hostport(plan: Plan, host: PlannedHost, view: AccountView) -> PlannedHostport:
    certificate = "" if host.certificate == OPERATOR else host.certificate
    known = view.certificates.get(certificate)
    return PlannedHostport(
        host.name if port_of(host.name) else f"{host.name}:443",
        host.state,
        host.error,
        certificate,
        known.not_after if known else None,
        frozenset(_dependencies(plan, host)) if host.state == "live" else frozenset(),
    )


def _dependencies(plan: Plan, host: PlannedHost) -> Iterator[Key]:
    """Yield the resources that Envoy needs for a host."""
    if port := port_of(host.name):
        yield Key("listener", listeners.port_name(port))
    else:
        yield Key("cluster", NAME_PREFIX + host.name)
        yield Key("listener", listener_name(plan.edge.id, host.certificate))
    if host.certificate:
        yield Key("secret", host.certificate)
    yield Key("cluster", clusters.stream_name(plan)) if plan.is_stream else Key("routes", plan.routes_name)


def _stream_routes(plan: Plan) -> tuple[PlannedRoute, ...]:
    """Return the routes of an edge that forwards connections as bytes."""
    state: State = "refused" if plan.destinations.refusal else "live"
    keys = frozenset({Key("cluster", clusters.stream_name(plan))} if plan.certificates else ())
    return tuple(
        PlannedRoute(it.id, state, plan.destinations.refusal or plan.destinations.error, keys)
        for it in plan.edge.routes
    )


def _plan_route(plan: Plan, target: RouteTarget) -> PlannedRoute:
    is_open = not target.page or (target.page == pages.NO_BACKEND and not target.error)
    keys = frozenset([Key("routes", plan.routes_name), *_upstreams(plan, target)]) if plan.certificates else frozenset()
    return PlannedRoute(target.route.id, "live" if is_open else "refused", target.error, keys)


def _upstreams(plan: Plan, target: RouteTarget) -> Iterator[Key]:
    for id, _ in target.weights:
        if is_group(id):
            name = clusters.edge_group_name(plan, id)
            yield from (Key("cluster", name), Key("cluster", clusters.http2_name(name)))
        else:
            yield from (Key("cluster", clusters.response_name(id)), Key("listener", clusters.response_name(id)))
