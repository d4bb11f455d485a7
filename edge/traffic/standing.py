"""The standing of an edge: its state here, and the resources of Envoy that this rests on. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from chalicelib.model.served import ServedEdge
from edge.traffic import clusters, listeners, pages
from edge.traffic.edge_index import port_of
from edge.traffic.edges import Host, Plan, State, Target, listener_name
from edge.traffic.resources import NAME_PREFIX, Key
from edge.traffic.streams import is_group
from edge.traffic.world import OPERATOR, World


@dataclass(frozen=True)
class Served:
    """A hostport of an edge, live when Envoy has accepted the resources of `keys`.

    `certificate_id` is "" under the operator's certificate, whose end is not known here.
    """

    hostport: str
    state: State
    error: str = ""
    certificate_id: str = ""
    not_after: datetime | None = None
    keys: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class RouteStanding:
    """A route, as it is once Envoy has accepted the resources of `keys`."""

    id: str
    state: State
    error: str = ""
    keys: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class Standing:
    """An edge; `backends` are the tunnel groups that it leads to, each with the number of its tunnels."""

    edge: ServedEdge
    hostports: tuple[Served, ...]
    routes: tuple[RouteStanding, ...]
    backends: tuple[tuple[str, int], ...]


def of(plan: Plan, world: World) -> Standing:
    """Return the standing of an edge."""
    groups = sorted(filter(is_group, plan.backends))
    counted = tuple((id, len(world.members(world.backends[id]))) for id in groups)
    routes = tuple(_route(plan, target) for target in plan.targets) or _passed_on(plan)
    return Standing(plan.edge, tuple(_served(plan, host, world) for host in plan.hosts), routes, counted)


def _served(plan: Plan, host: Host, world: World) -> Served:
    certificate = "" if host.certificate == OPERATOR else host.certificate
    known = world.certificates.get(certificate)
    return Served(
        host.name if port_of(host.name) else f"{host.name}:443",
        host.state,
        host.error,
        certificate,
        known.not_after if known else None,
        frozenset(_rests_on(plan, host)) if host.state == "live" else frozenset(),
    )


def _rests_on(plan: Plan, host: Host) -> Iterator[Key]:
    """Yield the resources that Envoy must have for a host."""
    if port := port_of(host.name):
        yield Key("listener", listeners.port_name(port))
    else:
        yield Key("cluster", NAME_PREFIX + host.name)
        yield Key("listener", listener_name(plan.edge.id, host.certificate))
    if host.certificate:
        yield Key("secret", host.certificate)
    yield Key("cluster", clusters.stream(plan)) if plan.is_stream else Key("routes", plan.routes_name)


def _passed_on(plan: Plan) -> tuple[RouteStanding, ...]:
    """Return the routes of an edge that passes connections on as bytes."""
    state: State = "refused" if plan.destinations.closed else "live"
    keys = frozenset({Key("cluster", clusters.stream(plan))} if plan.live else ())
    return tuple(
        RouteStanding(it.id, state, plan.destinations.closed or plan.destinations.error, keys)
        for it in plan.edge.routes
    )


def _route(plan: Plan, target: Target) -> RouteStanding:
    is_open = not target.page or (target.page == pages.NO_BACKEND and not target.error)
    keys = frozenset([Key("routes", plan.routes_name), *_upstreams(plan, target)]) if plan.live else frozenset()
    return RouteStanding(target.route.id, "live" if is_open else "refused", target.error, keys)


def _upstreams(plan: Plan, target: Target) -> Iterator[Key]:
    for id, _ in target.weights:
        if is_group(id):
            name = clusters.group_of(plan, id)
            yield from (Key("cluster", name), Key("cluster", clusters.http2(name)))
        else:
            yield from (Key("cluster", clusters.answering(id)), Key("listener", clusters.answering(id)))
