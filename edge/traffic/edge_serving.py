"""The resources of Envoy for edges: where they are led to, their listeners and routes, and what those lead to. Pure."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from chalicelib.model import kinds
from chalicelib.model.backends import HttpResponse
from chalicelib.model.gateways import Gateway
from chalicelib.model.tunnels import ServedTunnel
from edge.process.settings import Settings
from edge.traffic import answers, clusters, edge_listeners, edge_routes, edges, listeners, routes, standing
from edge.traffic.edge_index import hosts_of, port_of
from edge.traffic.edges import Plan, listener_name
from edge.traffic.resources import Changes, Key, Resource
from edge.traffic.standing import PlannedStatus
from edge.traffic.units import OwnedResources
from edge.traffic.world import World

_RETENTION = timedelta(
    minutes=1
)  # for which routes that went lead nowhere, before they go: until Envoy has that for sure


class EdgeServing:
    """The edges of one edge host. Of a name that no edge has, and that is among `sites`, the owner is not theirs."""

    def __init__(
        self, world: World, sites: Container[str], owned: OwnedResources, settings: Settings, link_authority: str
    ) -> None:
        self._world, self._sites, self._owned = world, sites, owned
        self._settings, self._link_authority = settings, link_authority
        self._plans: dict[str, Plan] = {}
        self._led: dict[str, set[str]] = {}  # edges by the groups and responses that they lead to
        self._online: set[str] = set()  # groups that have tunnels
        self._closed: dict[Key, datetime] = {}  # routes that went, and when
        self._touched: set[str] = set()

    def update(self, names: Iterable[str], ids: Iterable[str], backends: Iterable[str], now: datetime) -> Changes:
        """Make anew what is served at some names, some edges, and what some backends are; return what changes."""
        changes: dict[Key, Resource | None] = {**self._forgotten(now)}
        touched = {*ids, *(id for name in names for id in self._at(name))}
        every = {*names, *(host for id in ids for host in self._hosts(id))}
        for name in sorted(name for name in every if not port_of(name)):
            changes |= self._host(name, now)
        to_make = set(backends)
        for id in sorted(touched):
            before = self._ways(id)
            changes |= self._edge(id, now)
            to_make |= {backend for backend, _ in before ^ self._ways(id)}
        for id in sorted(self._switched(backends)):
            changes |= self._rebalanced(id, now)
        for port in sorted({port_of(name) for name in every} - {""}):
            changes |= self._port(port)
        for id in sorted(to_make):
            changes |= self._backend(id)
            self._touched |= self._led.get(id, set())
        for id in sorted(touched.union(*(self._led.get(it, ()) for it in to_make))):
            changes |= self._stream(id)
        self._touched |= touched
        return changes

    def reject_routes(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Hear which routes the engine has refused, each with its sentence; return what changes."""
        found = {id: errors[it.routes_name] for id, it in self._plans.items() if it.routes_name in errors}
        changes: dict[Key, Resource | None] = {}
        for id, error in found.items():
            changes |= self._served(edges.close_refused(self._plans[id], error), now)
        return changes

    def planned_status(self, id: str) -> PlannedStatus | None:
        """Return the standing of an edge, None for one that is not served here."""
        found = self._plans.get(id)
        return standing.plan_status(found, self._world) if found else None

    def take_changed(self) -> frozenset[str]:
        """Return the ids of the edges that may stand otherwise, or be gone, since this was asked before."""
        found, self._touched = frozenset(self._touched), set()
        return found

    def _at(self, name: str) -> list[str]:
        """Return the ids of the edges at a name, of those whose wildcard stands for it, and of all at its port."""
        if port := port_of(name):
            return [edge.id for edge in self._world.edge_index.edges_at_port(port)]
        found = [
            *self._world.edge_index.edges_at_host(name),
            *self._world.edge_index.edges_at_host(f"*.{name.partition('.')[2]}"),
        ]
        return [edge.id for edge in found]

    def _hosts(self, id: str) -> list[str]:
        edge = self._world.edges.get(id)
        return hosts_of(edge) if edge else []

    def _backends(self, id: str) -> frozenset[str]:
        return self._plans[id].backends if id in self._plans else frozenset()

    def _ways(self, id: str) -> frozenset[tuple[str, bool]]:
        """Return the backends of an edge, and whether it tells them who a visitor is."""
        return frozenset((backend, self._plans[id].is_proxied) for backend in self._backends(id))

    def _host(self, name: str, now: datetime) -> Changes:
        """Lead a name to the listener of the edge that has it; to none where that is closed, or a wildcard may not."""
        edge, owner = self._world.edge_at_host(name), ("name", name)
        if edge is None and name in self._sites:
            return {}
        if edge is None:
            closed = listeners.build_name_part(name, self._settings), routes.build_misdirected_part(name)
            return self._owned.put(owner, closed if self._world.is_withheld(name) else ())
        found = edges.plan_host(edge, name, self._world, now)
        refuses_challenges = self._world.refuses_challenges(edge.account, name)
        made = [_name_part_builder(name, refuses_challenges)(name, self._settings), routes.build_misdirected_part(name)]
        if found.answers:
            made.append(clusters.build_listener_cluster(name, listener_name(edge.id, found.certificate)))
            is_redirected = edge.kind is kinds.HTTPS_EDGES or not self._world.is_own_domain(name)
            if is_redirected and not refuses_challenges:
                made.append(routes.build_redirect_part(name, self._settings))
        return self._owned.put(owner, made)

    def _edge(self, id: str, now: datetime) -> Changes:
        edge = self._world.edges.get(id)
        if edge:
            return self._served(edges.make_plan(edge, self._world, now), now)
        for backend in self._backends(id):
            self._led[backend].discard(id)
        self._plans.pop(id, None)
        return self._kept(self._owned.put(("edge", id), ()), now)

    def _served(self, plan: Plan, now: datetime) -> Changes:
        id = plan.edge.id
        for backend in self._backends(id) - plan.backends:
            self._led[backend].discard(id)
        self._plans[id] = plan
        for backend in plan.backends:
            self._led.setdefault(backend, set()).add(id)
        certificates = {certificate for name, certificate in plan.certificates.items() if not port_of(name)}
        made = [edge_listeners.build_edge_listener(plan, it, self._settings) for it in sorted(certificates)]
        if made and not plan.is_stream:
            made.append(edge_routes.build_edge_routes(plan))
        return self._kept(self._owned.put(("edge", id), made), now)

    def _switched(self, backends: Iterable[str]) -> set[str]:
        """Return the edges that lead to the groups that went online or offline."""
        switched = {id for id in backends if self._world.is_online(id) != (id in self._online)}
        self._online ^= switched
        return set[str]().union(*(self._led.get(id, ()) for id in switched))

    def _rebalanced(self, id: str, now: datetime) -> Changes:
        plan = edges.rebalance(self._plans[id], self._world)
        return {} if plan == self._plans[id] else self._served(plan, now)

    def _port(self, port: str) -> Changes:
        """Make the listener of a port, if an edge is live there or a tunnel has it."""
        edge, owner = self._world.edge_at_port(port), ("port", port)
        plan = self._plans.get(edge.id) if edge else None
        if plan and port in map(port_of, plan.certificates):
            return self._owned.put(owner, [edge_listeners.build_edge_port_listener(plan, port, self._settings)])
        tunnel = self._world.tunnel_at(port)
        return self._owned.put(
            owner, [listeners.build_tunnel_port_listener(tunnel, port, self._settings)] if tunnel else ()
        )

    def _stream(self, id: str) -> Changes:
        """Make the upstream of an edge, if that passes bytes on and is live."""
        plan, owner = self._plans.get(id), ("stream", id)
        if plan is None or not plan.destinations.groups or not plan.certificates:
            return self._owned.put(owner, ())
        found = [(id, weight, self._members(id)) for id, weight in plan.destinations.groups]
        return self._owned.put(
            owner, [clusters.build_stream_cluster(plan, found, self._link_authority, self._settings)]
        )

    def _members(self, id: str) -> list[tuple[ServedTunnel, Gateway]]:
        return self._world.members(self._world.backends[id])

    def _kept(self, changes: Changes, now: datetime) -> Changes:
        """Let routes that go lead nowhere instead, for a while."""
        gone = [key for key, it in changes.items() if it is None and key.kind == "routes"]
        self._closed |= dict.fromkeys(gone, now)
        for key in changes.keys() - gone:
            self._closed.pop(key, None)
        return {**changes, **{key: edge_routes.build_closed_routes(key.name) for key in gone}}

    def _forgotten(self, now: datetime) -> Changes:
        """Remove the routes that have led nowhere for long enough."""
        gone = [key for key, since in self._closed.items() if since <= now - _RETENTION]
        for key in gone:
            del self._closed[key]
        return dict.fromkeys(gone)

    def _backend(self, id: str) -> Changes:
        """Make the resources of a group or an HTTP response, if an edge leads to it."""
        found = self._world.backends.get(id)
        if not self._led.get(id):
            self._led.pop(id, None)
        plans = [plan for edge in self._led.get(id, ()) if not (plan := self._plans[edge]).is_stream]
        if found is None or not plans:
            return self._owned.put(("backend", id), ())
        if isinstance(found.value, HttpResponse):
            made = [
                clusters.build_response_cluster(id),
                answers.build_response_listener(id, found.value, self._settings),
            ]
            return self._owned.put(("backend", id), made)
        ways = {
            clusters.build_proxied_group_clusters if plan.is_proxied else clusters.build_group_clusters
            for plan in plans
        }
        members, owner = self._world.members(found), ("backend", id)
        made = [it for way in ways for it in way(id, members, self._link_authority, self._settings)]
        is_emptied = not members and owner in self._owned
        return self._owned.put(owner, [replace(it, is_emptied=is_emptied) for it in made])


def _name_part_builder(name: str, refuses_challenges: bool) -> Callable[[str, Settings], Resource]:
    if name.startswith("*."):
        return listeners.build_unreserved_wildcard_part if refuses_challenges else listeners.build_wildcard_part
    return listeners.build_unreserved_name_part if refuses_challenges else listeners.build_name_part
