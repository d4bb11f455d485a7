"""Envoy's resources on an edge host. An update builds only the affected resources again. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from chalicelib.model.tunnels.gateways import Gateway
from edge.envoy import clusters, listeners, routes
from edge.envoy.filters import blocking
from edge.envoy.resources import Changes, Key, Resource
from edge.plan.record_index import Removed, Update
from edge.plan.world import OPERATOR, Site, World
from edge.process.settings import Settings
from edge.serving.edge_serving import EdgeServing
from edge.serving.standing import PlannedStatus
from edge.serving.units import OwnedResources


class Serving:
    """Envoy's resources on one edge host. `link_authority` is the CA certificate of gateways, PEM."""

    def __init__(self, settings: Settings, link_authority: str) -> None:
        self.world = World(settings.tunnel_domain, settings.tcp_ports)
        self.sites: dict[str, Site] = {}
        self._settings, self._link_authority = settings, link_authority
        self._sites_by_certificate: dict[str, dict[str, Site]] = {}  # inner key: name
        self._owned, self._listeners = OwnedResources(), blocking.BlockedListeners()
        self._edges = EdgeServing(self.world, self.sites, self._owned, settings, link_authority)

    def start(self) -> Changes:
        """Return the resources that do not depend on records."""
        fixed = (
            *listeners.build_public(self._settings),
            routes.build_operator_routes(),
            routes.build_redirects(self._settings),
        )
        return {resource.key: resource for resource in fixed}

    def update(self, updates: Iterable[Update], now: datetime, names: Iterable[str] = ()) -> Changes:
        """Apply updates and evaluate names again. Return the changed resources."""
        changes: dict[Key, Resource | None] = {}
        touched, edges, backends, groups = set(names), set[str](), set[str](), set[str]()
        for it in updates:
            edges |= self.world.affected_edges(it.id)
            backends |= self.world.affected_groups(it.id)
            touched |= self.world.apply(it)
            edges |= self.world.affected_edges(it.id)
            backends |= self.world.affected_groups(it.id)
            if isinstance(it, Gateway | Removed):
                changes |= self._update_gateway(it.id)
        for name in sorted(touched):
            before, site = self.sites.get(name), self.world.site(name, now)
            if before != site:
                groups |= self._regroup(before, site)
                changes |= self._update_site(name, site)
        for certificate in sorted(groups - {OPERATOR, ""}):
            changes |= self._update_certificate(certificate)
        return self._listeners.guard({**changes, **self._edges.update(touched, edges, backends, now)})

    def block(self, networks: Iterable[str], banned: Iterable[str]) -> Changes:
        """Return the resources that refuse blocked networks, and banned hosts."""
        blocked = sorted(networks)
        filters = {it.key: it for it in blocking.build_rules(blocked, banned)}
        return {**filters, **self._listeners.block(blocked)}

    def reject_routes(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Handle routes that Envoy rejected, given its error by their name. Return the changes.

        Edges with modules that restrict visitors are closed until they change. Other edges keep their earlier routes.
        """
        return self._listeners.guard(self._edges.reject_routes(errors, now))

    def reject_certificates(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Handle certificates that Envoy rejected, given its error by their id. Return the changes."""
        touched = [self.world.reject_certificate(id, error) for id, error in errors.items()]
        return self.update((), now, frozenset().union(*touched)) if any(touched) else {}

    def rename_operator(self, names: frozenset[str], now: datetime) -> Changes:
        """Set the names in the operator's certificate. Return the changes."""
        touched = self.world.rename_operator(names)
        return self.update((), now, touched) if touched else {}

    def planned_status(self, edge: str) -> PlannedStatus | None:
        """Return the planned status of an edge, or None if it is not served here."""
        return self._edges.planned_status(edge)

    def take_changed_edges(self) -> frozenset[str]:
        """Return the ids of the edges that changed or were removed since the last call."""
        return self._edges.take_changed()

    def _regroup(self, before: Site | None, site: Site | None) -> set[str]:
        """Move a site to the group of its certificate. Return the certificates of changed groups."""
        if before:
            del self.sites[before.name]
            del self._sites_by_certificate[before.certificate][before.name]
        if site:
            self.sites[site.name] = site
            self._sites_by_certificate.setdefault(site.certificate, {})[site.name] = site
        return {it.certificate for it in (before, site) if it}

    def _update_gateway(self, id: str) -> Changes:
        gateway = self.world.gateways.get(id)
        made = clusters.build_gateway_clusters(gateway, self._link_authority, self._settings) if gateway else ()
        return self._owned.put(("gateway", id), made)

    def _update_site(self, name: str, site: Site | None) -> Changes:
        if site is None:
            return self._owned.put(("name", name), ())
        redirected = () if site.refuses_challenges else (routes.build_redirect_part(name, self._settings),)
        if site.certificate == OPERATOR:
            return self._owned.put(("name", name), [routes.build_host_part(site), *redirected])
        front = listeners.build_unreserved_name_part if site.refuses_challenges else listeners.build_name_part
        if not site.certificate:
            tunnel = site.tunnel
            to_tunnel = clusters.build_listener_cluster(name, listeners.tunnel_name(tunnel.id))
            own = listeners.build_tunnel_listener(tunnel, self._settings)
            made = [own, to_tunnel, front(name, self._settings), routes.build_misdirected_part(name)]
            is_redirected = not self.world.is_own_domain(name)
            return self._owned.put(("name", name), [*made, *(redirected if is_redirected else ())])
        made = [
            clusters.build_name_cluster(site),
            front(name, self._settings),
            routes.build_misdirected_part(name),
            *redirected,
        ]
        return self._owned.put(("name", name), made)

    def _update_certificate(self, certificate: str) -> Changes:
        sites = tuple(site for _, site in sorted(self._sites_by_certificate[certificate].items()))
        if not sites:
            del self._sites_by_certificate[certificate]
            return self._owned.put(("certificate", certificate), ())
        made = [
            listeners.build_certificate_listener(certificate, self._settings),
            routes.build_certificate_routes(sites),
        ]
        return self._owned.put(("certificate", certificate), made)
