"""Envoy's scope of a loaded name: the routes for its server name, and the clusters that they use. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.gateways import Gateway
from edge.envoy import answers, clusters, edge_routes, routes, v3
from edge.envoy.clusters import Members
from edge.envoy.names import managers, tls_contexts
from edge.envoy.resources import Resource, encode
from edge.plan.names import NamePlan
from edge.process.settings import Settings

_NO = v3.BoolValue(value=False)


class Backends(Protocol):
    """The records of an account that answer its names."""

    @property
    def gateways(self) -> Mapping[str, Gateway]: ...

    @property
    def backends(self) -> Mapping[str, ServedBackend]: ...

    def members(self, group: ServedBackend) -> Members: ...


def scope_name(plan: NamePlan) -> str:
    """Return the name of a plan's scope. It differs for each set of requirements on handshakes."""
    return managers.scope_of(plan.name, handshake_requirement(plan.edge) if plan.edge else "")


def handshake_requirement(plan: Plan) -> str:
    """Return what the handshakes of an edge require beyond the default, as part of a scope's name."""
    return (
        plan.digest
        if plan.trusted or plan.requires_sign_in
        else tls_contexts.requirement_of(tls_contexts.version_of(plan))
    )


def build_scope(plan: NamePlan) -> Resource | None:
    """Return the scope of a name, or None if its connections are forwarded as bytes."""
    if plan.site and plan.site.certificate:
        return _build_scope(scope_name(plan), [routes.build_site_host(plan.site), edge_routes.MISDIRECTED])
    if plan.edge is None or plan.edge.is_stream:
        return None
    own = tuple(it for it in plan.edge.hosts if it.certificate == plan.certificate)
    return _build_scope(scope_name(plan), edge_routes.build_edge_hosts(replace(plan.edge, hosts=own)))


def build_closed_scope(name: str) -> Resource:
    """Return a scope that answers 421, so that clients of open connections open others."""
    return _build_scope(name, [edge_routes.MISDIRECTED])


def build_clusters(plan: NamePlan, backends: Backends, link_authority: str, settings: Settings) -> tuple[Resource, ...]:
    """Return the clusters that the scope of a name uses, and the listeners behind them."""
    if plan.site and plan.site.certificate:
        return tuple(_site_clusters(plan.site, backends, link_authority, settings))
    if plan.edge is None or plan.edge.is_stream:
        return ()
    every = (_backend_clusters(plan.edge, id, backends, link_authority, settings) for id in sorted(plan.edge.backends))
    return tuple(it for made in every for it in made)


def _site_clusters(site: Site, backends: Backends, link_authority: str, settings: Settings) -> list[Resource]:
    gateway = backends.gateways.get(site.tunnel.gateway)
    if gateway is None:
        return []
    is_proxied = site.tunnel.proxy_protocol
    build = clusters.build_proxied_gateway_clusters if is_proxied else clusters.build_gateway_clusters
    return build(gateway, link_authority, settings)


def _backend_clusters(
    plan: Plan, id: str, backends: Backends, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the clusters of a tunnel group or an HTTP response. A group without tunnels is sent last."""
    found = backends.backends.get(id)
    if found is None:
        return []
    if isinstance(found.value, HttpResponse):
        return [clusters.build_response_cluster(id), answers.build_response_listener(id, found.value, settings)]
    build = clusters.build_proxied_group_clusters if plan.is_proxied else clusters.build_group_clusters
    members = backends.members(found)
    return [replace(it, is_emptied=not members) for it in build(id, members, link_authority, settings)]


def _build_scope(name: str, hosts: list[v3.VirtualHost]) -> Resource:
    scope = v3.ScopedRouteConfiguration(
        name=name,
        key=v3.ScopedRouteConfiguration.Key(fragments=[v3.ScopedRouteConfiguration.Key.Fragment(string_key=name)]),
        route_configuration=v3.RouteConfiguration(
            name=name,
            ignore_port_in_host_matching=True,
            validate_clusters=_NO,  # or a missing cluster would close all routes of the name
            virtual_hosts=hosts,
        ),
    )
    return encode(scope)
