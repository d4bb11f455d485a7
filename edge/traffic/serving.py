"""The resources of Envoy on an edge host: a fact that changes makes anew what it touches alone. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from chalicelib.model.gateways import Gateway
from edge.process.settings import Settings
from edge.traffic import blocking, clusters, listeners, routes
from edge.traffic.edge_serving import EdgeServing
from edge.traffic.record_index import Removed, Update
from edge.traffic.resources import Changes, Key, Resource
from edge.traffic.standing import PlannedStatus
from edge.traffic.units import OwnedResources
from edge.traffic.world import OPERATOR, Site, World


class Serving:
    """The resources of one edge host. `link_authority` is the certificate that gateways prove themselves with, PEM."""

    def __init__(self, settings: Settings, link_authority: str) -> None:
        self.world = World(settings.tunnel_domain, settings.tcp_ports)
        self.sites: dict[str, Site] = {}
        self._settings, self._link_authority = settings, link_authority
        self._groups: dict[str, dict[str, Site]] = {}  # sites by name, by the id of their certificate
        self._owned, self._listeners = OwnedResources(), blocking.BlockedListeners()
        self._edges = EdgeServing(self.world, self.sites, self._owned, settings, link_authority)

    def start(self) -> Changes:
        """Return the resources that are served before anything is known."""
        fixed = (
            *listeners.build_public(self._settings),
            routes.build_operator_routes(),
            routes.build_redirects(self._settings),
        )
        return {resource.key: resource for resource in fixed}

    def update(self, facts: Iterable[Update], now: datetime, names: Iterable[str] = ()) -> Changes:
        """Take up facts, and look at some names again; return what changes by that at this moment."""
        changes: dict[Key, Resource | None] = {}
        touched, edges, backends, groups = set(names), set[str](), set[str](), set[str]()
        for fact in facts:
            edges |= self.world.affected_edges(fact.id)
            backends |= self.world.affected_groups(fact.id)
            touched |= self.world.apply(fact)
            edges |= self.world.affected_edges(fact.id)
            backends |= self.world.affected_groups(fact.id)
            if isinstance(fact, Gateway | Removed):
                changes |= self._gateway(fact.id)
        for name in sorted(touched):
            before, site = self.sites.get(name), self.world.site(name, now)
            if before != site:
                groups |= self._regroup(before, site)
                changes |= self._site(name, site)
        for certificate in sorted(groups - {OPERATOR, ""}):
            changes |= self._group(certificate)
        return self._listeners.guard({**changes, **self._edges.update(touched, edges, backends, now)})

    def block(self, networks: Iterable[str], banned: Iterable[str]) -> Changes:
        """Return the resources that refuse blocked networks, and banned hosts."""
        blocked = sorted(networks)
        filters = {it.key: it for it in blocking.build_rules(blocked, banned)}
        return {**filters, **self._listeners.block(blocked)}

    def reject_routes(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Hear which routes Envoy has refused, its sentence by their name; return what changes by that.

        An edge whose routes hold visitors back is closed until it changes; others stay as Envoy had them.
        """
        return self._listeners.guard(self._edges.reject_routes(errors, now))

    def reject_certificates(self, errors: Mapping[str, str], now: datetime) -> Changes:
        """Hear which certificates Envoy cannot use, its sentence by their id; return what changes by that."""
        touched = [self.world.reject_certificate(id, error) for id, error in errors.items()]
        return self.update((), now, frozenset().union(*touched)) if any(touched) else {}

    def rename_operator(self, names: frozenset[str], now: datetime) -> Changes:
        """Set the names in the operator's certificate. Return what changes."""
        touched = self.world.rename_operator(names)
        return self.update((), now, touched) if touched else {}

    def planned_status(self, edge: str) -> PlannedStatus | None:
        """Return the standing of an edge, None for one that is not there."""
        return self._edges.planned_status(edge)

    def take_changed_edges(self) -> frozenset[str]:
        """Return the ids of the edges that may stand otherwise, or be gone, since this was asked before."""
        return self._edges.take_changed()

    def _regroup(self, before: Site | None, site: Site | None) -> set[str]:
        """Put a site among those of its certificate; return the certificates whose sites differ now."""
        if before:
            del self.sites[before.name]
            del self._groups[before.certificate][before.name]
        if site:
            self.sites[site.name] = site
            self._groups.setdefault(site.certificate, {})[site.name] = site
        return {it.certificate for it in (before, site) if it}

    def _gateway(self, id: str) -> Changes:
        gateway = self.world.gateways.get(id)
        made = clusters.build_gateway_clusters(gateway, self._link_authority, self._settings) if gateway else ()
        return self._owned.put(("gateway", id), made)

    def _site(self, name: str, site: Site | None) -> Changes:
        if site is None:
            return self._owned.put(("name", name), ())
        redirected = () if site.refuses_challenges else (routes.build_redirect_part(name, self._settings),)
        if site.certificate == OPERATOR:
            return self._owned.put(("name", name), [routes.build_host_part(site), *redirected])
        front = listeners.build_unreserved_name_part if site.refuses_challenges else listeners.build_name_part
        if not site.certificate:
            tunnel = site.tunnel
            led = clusters.build_listener_cluster(name, listeners.tunnel_name(tunnel.id))
            own = listeners.build_tunnel_listener(tunnel, self._settings)
            made = [own, led, front(name, self._settings), routes.build_misdirected_part(name)]
            is_redirected = not self.world.is_own_domain(name)
            return self._owned.put(("name", name), [*made, *(redirected if is_redirected else ())])
        made = [
            clusters.build_name_cluster(site),
            front(name, self._settings),
            routes.build_misdirected_part(name),
            *redirected,
        ]
        return self._owned.put(("name", name), made)

    def _group(self, certificate: str) -> Changes:
        sites = tuple(site for _, site in sorted(self._groups[certificate].items()))
        if not sites:
            del self._groups[certificate]
            return self._owned.put(("certificate", certificate), ())
        made = [
            listeners.build_certificate_listener(certificate, self._settings),
            routes.build_certificate_routes(sites),
        ]
        return self._owned.put(("certificate", certificate), made)
