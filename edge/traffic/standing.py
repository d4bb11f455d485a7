"""How an edge stands: what is made of it here, and the resources of Envoy that this rests on. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from chalicelib.model.served import ServedEdge
from edge.traffic import clusters, pages
from edge.traffic.edges import Host, Plan, State, Target, is_group, listener_name
from edge.traffic.resources import Key
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
    """An edge of HTTPS; `backends` are the tunnel groups that it leads to, each with the number of its tunnels."""

    edge: ServedEdge
    hostports: tuple[Served, ...]
    routes: tuple[RouteStanding, ...]
    backends: tuple[tuple[str, int], ...]


def of(plan: Plan, world: World) -> Standing:
    """Return how an edge stands."""
    groups = sorted({id for target in plan.targets for id, _ in target.weights if is_group(id)})
    counted = tuple((id, len(world.members(world.backends[id]))) for id in groups)
    routes = tuple(_route(plan, target) for target in plan.targets)
    return Standing(plan.edge, tuple(_served(plan, host, world) for host in plan.hosts), routes, counted)


def _served(plan: Plan, host: Host, world: World) -> Served:
    certificate = "" if host.certificate == OPERATOR else host.certificate
    known = world.certificates.get(certificate)
    keys = {
        Key("cluster", clusters.PREFIX + host.name),
        Key("listener", listener_name(plan.edge.id, host.certificate)),
        Key("secret", host.certificate),
        Key("routes", plan.routes_name),
    }
    return Served(
        f"{host.name}:443",
        host.state,
        host.error,
        certificate,
        known.not_after if known else None,
        frozenset(keys) if host.state == "live" else frozenset(),
    )


def _route(plan: Plan, target: Target) -> RouteStanding:
    is_open = not target.page or (target.page == pages.NO_BACKEND and not target.error)
    keys = frozenset([Key("routes", plan.routes_name), *_upstreams(target)]) if plan.live else frozenset()
    return RouteStanding(target.route.id, "live" if is_open else "refused", target.error, keys)


def _upstreams(target: Target) -> Iterator[Key]:
    for id, _ in target.weights:
        if is_group(id):
            yield from (Key("cluster", clusters.group(id)), Key("cluster", clusters.http2(clusters.group(id))))
        else:
            yield from (Key("cluster", clusters.answering(id)), Key("listener", clusters.answering(id)))
