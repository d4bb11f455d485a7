"""Envoy's resources for edges: listeners, routes, and clusters of their backends. Pure."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.serving import edge_plans
from chalicelib.model.serving.edge_plans import Plan, listener_name
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import answers, clusters, edge_listeners, edge_routes, listeners, routes
from edge.envoy.resources import Changes, Key, Resource
from edge.plan.edge_index import hosts_of, port_of
from edge.plan.world import World
from edge.process.settings import Settings
from edge.serving import standing
from edge.serving.standing import PlannedStatus
from edge.serving.units import OwnedResources

# For this time removed routes answer with 421, until Envoy certainly has that.
_RETENTION = timedelta(minutes=1)


class EdgeServing:
    """The edges of one edge host. Names in `sites` that no edge has belong to Serving."""

    def __init__(
        self, world: World, sites: Container[str], owned: OwnedResources, settings: Settings, link_authority: str
    ) -> None:
        self._world, self._sites, self._owned = world, sites, owned
        self._settings, self._link_authority = settings, link_authority
        self._plans: dict[str, Plan] = {}
        self._edges_by_backend: dict[str, set[str]] = {}  # edge ids by backend id
        self._online: set[str] = set()  # groups with tunnels
        self._retained: dict[Key, datetime] = {}  # removed routes, with the time of removal
        self._changed: set[str] = set()

    def update(self, names: Iterable[str], ids: Iterable[str], backends: Iterable[str], now: datetime) -> Changes:
        """Build the resources of names, edges and backends again. Return the differences."""
        changes: dict[Key, Resource | None] = {**self._drop_retained(now)}
        affected = {*ids, *(id for name in names for id in self._edge_ids_at(name))}
        every = {*names, *(host for id in ids for host in self._hosts(id))}
        for name in sorted(name for name in every if not port_of(name)):
            changes |= self._update_host(name, now)
        to_update = set(backends)
        for id in sorted(affected):
            before = self._backend_variants(id)
            changes |= self._update_edge(id, now)
            to_update |= {backend for backend, _ in before ^ self._backend_variants(id)}
        for id in sorted(self._edges_of_switched(backends)):
            changes |= self._rebalance(id, now)
        for port in sorted({port_of(name) for name in every} - {""}):
            changes |= self._update_port(port)
        for id in sorted(to_update):
            changes |= self._update_backend(id)
            self._changed |= self._edges_by_backend.get(id, set())
        for id in sorted(affected.union(*(self._edges_by_backend.get(it, ()) for it in to_update))):
            changes |= self._update_stream(id)
        self._changed |= affected
        return changes

    def reject_routes(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Handle routes that Envoy rejected, given its error by their name. Return the changes."""
        found = {id: errors[it.routes_name] for id, it in self._plans.items() if it.routes_name in errors}
        changes: dict[Key, Resource | None] = {}
        for id, error in found.items():
            changes |= self._serve_plan(edge_plans.close_refused(self._plans[id], error), now)
        return changes

    def planned_status(self, id: str) -> PlannedStatus | None:
        """Return the planned status of an edge, or None if it is not served here."""
        found = self._plans.get(id)
        return standing.plan_status(found, self._world) if found else None

    def take_changed(self) -> frozenset[str]:
        """Return the ids of the edges that changed or were removed since the last call."""
        found, self._changed = frozenset(self._changed), set()
        return found

    def _edge_ids_at(self, name: str) -> list[str]:
        """Return the ids of the edges that have a name, a wildcard above it, or its port."""
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

    def _backend_variants(self, id: str) -> frozenset[tuple[str, bool]]:
        """Return the backends of an edge, and whether the edge sends them the visitor's address."""
        return frozenset((backend, self._plans[id].is_proxied) for backend in self._backends(id))

    def _update_host(self, name: str, now: datetime) -> Changes:
        """Build the resources that send a name to its edge's listener, or refuse it."""
        edge, owner = self._world.edge_at_host(name), ("name", name)
        if edge is None and name in self._sites:
            return {}
        if edge is None:
            closed = listeners.build_name_part(name, self._settings), routes.build_misdirected_part(name)
            return self._owned.put(owner, closed if self._world.is_withheld(name) else ())
        found = edge_plans.plan_host(edge, name, self._world, now)
        refuses_challenges = self._world.refuses_challenges(edge.account, name)
        made = [_name_part_builder(name, refuses_challenges)(name, self._settings), routes.build_misdirected_part(name)]
        if found.answers:
            made.append(clusters.build_listener_cluster(name, listener_name(edge.id, found.certificate)))
            is_redirected = edge.kind is kinds.HTTPS_EDGES or not self._world.is_own_domain(name)
            if is_redirected and not refuses_challenges:
                made.append(routes.build_redirect_part(name, self._settings))
        return self._owned.put(owner, made)

    def _update_edge(self, id: str, now: datetime) -> Changes:
        edge = self._world.edges.get(id)
        if edge:
            return self._serve_plan(edge_plans.make_plan(edge, self._world, now), now)
        for backend in self._backends(id):
            self._edges_by_backend[backend].discard(id)
        self._plans.pop(id, None)
        return self._retain_routes(self._owned.put(("edge", id), ()), now)

    def _serve_plan(self, plan: Plan, now: datetime) -> Changes:
        id = plan.edge.id
        for backend in self._backends(id) - plan.backends:
            self._edges_by_backend[backend].discard(id)
        self._plans[id] = plan
        for backend in plan.backends:
            self._edges_by_backend.setdefault(backend, set()).add(id)
        certificates = {certificate for name, certificate in plan.certificates.items() if not port_of(name)}
        made = [edge_listeners.build_edge_listener(plan, it, self._settings) for it in sorted(certificates)]
        if made and not plan.is_stream:
            made.append(edge_routes.build_edge_routes(plan))
        return self._retain_routes(self._owned.put(("edge", id), made), now)

    def _edges_of_switched(self, backends: Iterable[str]) -> set[str]:
        """Return the edges of the groups that went online or offline."""
        switched = {id for id in backends if self._world.is_online(id) != (id in self._online)}
        self._online ^= switched
        return set[str]().union(*(self._edges_by_backend.get(id, ()) for id in switched))

    def _rebalance(self, id: str, now: datetime) -> Changes:
        plan = edge_plans.rebalance(self._plans[id], self._world)
        return {} if plan == self._plans[id] else self._serve_plan(plan, now)

    def _update_port(self, port: str) -> Changes:
        """Build the listener of a port, if an edge is live there or a tunnel has it."""
        edge, owner = self._world.edge_at_port(port), ("port", port)
        plan = self._plans.get(edge.id) if edge else None
        if plan and port in map(port_of, plan.certificates):
            return self._owned.put(owner, [edge_listeners.build_edge_port_listener(plan, port, self._settings)])
        tunnel = self._world.tunnel_at(port)
        return self._owned.put(
            owner, [listeners.build_tunnel_port_listener(tunnel, port, self._settings)] if tunnel else ()
        )

    def _update_stream(self, id: str) -> Changes:
        """Build the cluster of an edge, if the edge forwards bytes and is live."""
        plan, owner = self._plans.get(id), ("stream", id)
        if plan is None or not plan.destinations.groups or not plan.certificates:
            return self._owned.put(owner, ())
        found = [(id, weight, self._members(id)) for id, weight in plan.destinations.groups]
        return self._owned.put(
            owner, [clusters.build_stream_cluster(plan, found, self._link_authority, self._settings)]
        )

    def _members(self, id: str) -> list[tuple[ServedTunnel, Gateway]]:
        return self._world.members(self._world.backends[id])

    def _retain_routes(self, changes: Changes, now: datetime) -> Changes:
        """Replace removals of routes with routes that answer 421, for the retention time."""
        gone = [key for key, it in changes.items() if it is None and key.kind == "routes"]
        self._retained |= dict.fromkeys(gone, now)
        for key in changes.keys() - gone:
            self._retained.pop(key, None)
        return {**changes, **{key: edge_routes.build_closed_routes(key.name) for key in gone}}

    def _drop_retained(self, now: datetime) -> Changes:
        """Return the removals of routes whose retention has ended."""
        gone = [key for key, since in self._retained.items() if since <= now - _RETENTION]
        for key in gone:
            del self._retained[key]
        return dict.fromkeys(gone)

    def _update_backend(self, id: str) -> Changes:
        """Build the resources of a group or an HTTP response, if an edge uses it."""
        found = self._world.backends.get(id)
        if not self._edges_by_backend.get(id):
            self._edges_by_backend.pop(id, None)
        plans = [plan for edge in self._edges_by_backend.get(id, ()) if not (plan := self._plans[edge]).is_stream]
        if found is None or not plans:
            return self._owned.put(("backend", id), ())
        if isinstance(found.value, HttpResponse):
            made = [
                clusters.build_response_cluster(id),
                answers.build_response_listener(id, found.value, self._settings),
            ]
            return self._owned.put(("backend", id), made)
        builders = {
            clusters.build_proxied_group_clusters if plan.is_proxied else clusters.build_group_clusters
            for plan in plans
        }
        members, owner = self._world.members(found), ("backend", id)
        made = [it for build in builders for it in build(id, members, self._link_authority, self._settings)]
        is_emptied = not members and owner in self._owned
        return self._owned.put(owner, [replace(it, is_emptied=is_emptied) for it in made])


def _name_part_builder(name: str, refuses_challenges: bool) -> Callable[[str, Settings], Resource]:
    if name.startswith("*."):
        return listeners.build_unreserved_wildcard_part if refuses_challenges else listeners.build_wildcard_part
    return listeners.build_unreserved_name_part if refuses_challenges else listeners.build_name_part
