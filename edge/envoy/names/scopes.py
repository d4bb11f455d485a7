"""Builds Envoy's scope of a loaded name, with its routes and clusters. This file does no I/O.

A scope has the routes for one name and one handshake requirement: an edge's TLS version, or a digest if the edge
demands client certificates or OAuth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules import circuit_breaker
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.serving.sites import Site
from chalicelib.model.serving.streams import is_group
from chalicelib.model.tunnels.gateways import Gateway
from edge.envoy import answers, clusters, edge_routes, parts, routes, v3
from edge.envoy.clusters import Members
from edge.envoy.filters import sign_in
from edge.envoy.names import circuits, managers, tls_contexts
from edge.envoy.resources import Resource, encode
from edge.plan.names import NamePlan
from edge.process.settings import Settings

_SCOPE = v3.ScopedRouteConfiguration(
    key=v3.ScopedRouteConfiguration.Key(fragments=[v3.ScopedRouteConfiguration.Key.Fragment()]),
    route_configuration=v3.RouteConfiguration(
        ignore_port_in_host_matching=True,
        # if true, Envoy would reject all routes of a name if one of their clusters is missing
        validate_clusters=v3.BoolValue(value=False),
    ),
)
_MISDIRECTED = routes.build_page_host("misdirected", "*", page=pages.MISDIRECTED)
_MISDIRECTED_BESIDE_OAUTH = parts.copy(_MISDIRECTED)
sign_in.exempt_host(_MISDIRECTED_BESIDE_OAUTH)


class Backends(Protocol):
    """The records of gateways and backends that an account uses."""

    @property
    def gateways(self) -> Mapping[str, Gateway]: ...

    @property
    def backends(self) -> Mapping[str, ServedBackend]: ...

    def members(self, group: ServedBackend) -> Members: ...


def scope_name(plan: NamePlan) -> str:
    """Return the name of the scope for a plan, which includes the handshake requirement."""
    return managers.scope_of(plan.name, handshake_requirement(plan.edge) if plan.edge else "")


def handshake_requirement(plan: Plan) -> str:
    """Return the handshake requirement of an edge. Return "" for the default TLS version."""
    return (
        plan.digest
        if plan.trusted or plan.requires_sign_in
        else tls_contexts.requirement_of(tls_contexts.version_of(plan))
    )


def build_scope(plan: NamePlan) -> Resource | None:
    """Return the scope of a name. Return None if its connections are forwarded as bytes."""
    if plan.site and plan.site.certificate:
        scope = _copy_scope(scope_name(plan))
        routes.add_site_host(scope.route_configuration, plan.site)
    elif plan.edge and not plan.edge.is_stream:
        scope = _copy_scope(scope_name(plan))
        hosts = tuple(host for host in plan.edge.hosts if host.certificate == plan.certificate)
        edge_routes.add_edge_hosts(scope.route_configuration, replace(plan.edge, hosts=hosts))
    else:
        return None
    misdirected = _MISDIRECTED_BESIDE_OAUTH if plan.edge and plan.edge.requires_sign_in else _MISDIRECTED
    scope.route_configuration.virtual_hosts.append(misdirected)
    return encode(scope)


def build_closed_scope(name: str) -> Resource:
    """Return a scope that answers 421, so that clients open new connections."""
    scope = _copy_scope(name)
    scope.route_configuration.virtual_hosts.append(_MISDIRECTED_BESIDE_OAUTH)
    return encode(scope)


def build_clusters(plan: NamePlan, backends: Backends, link_authority: str, settings: Settings) -> tuple[Resource, ...]:
    """Return the clusters that a name's routes use. Return also the internal listeners behind these clusters."""
    if plan.site and plan.site.certificate:
        return tuple(_site_clusters(plan.site, backends, link_authority, settings))
    if plan.edge is None or plan.edge.is_stream:
        return ()
    by_backend = {
        id: _backend_clusters(plan.edge, id, backends, link_authority, settings) for id in sorted(plan.edge.backends)
    }
    return (
        *(resource for resources in by_backend.values() for resource in resources),
        *_circuits(plan.edge, by_backend),
    )


def _circuits(plan: Plan, by_backend: Mapping[str, list[Resource]]) -> Iterator[Resource]:
    """Yield the clusters of routes with a circuit breaker. These additional clusters count failures."""
    for target in plan.targets:
        if module := target.route.modules.get(circuit_breaker.MODULE):
            groups = [cluster for id, _ in target.weights if is_group(id) for cluster in by_backend[id]]
            yield from circuits.build_circuits(target.route.id, module, groups)


def _site_clusters(site: Site, backends: Backends, link_authority: str, settings: Settings) -> Sequence[Resource]:
    gateway = backends.gateways.get(site.tunnel.gateway)
    if gateway is None:
        return []
    is_proxied = site.tunnel.proxy_protocol
    build = clusters.build_proxied_gateway_clusters if is_proxied else clusters.build_gateway_clusters
    return build(gateway, link_authority, settings)


def _backend_clusters(
    plan: Plan, id: str, backends: Backends, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the resources of a backend, which is a tunnel group or an HTTP response.

    If a group has no tunnels, its clusters are marked with `is_emptied`, so that they are sent last.
    """
    backend = backends.backends.get(id)
    if backend is None:
        return []
    if isinstance(backend.value, HttpResponse):
        return [clusters.build_response_cluster(id), answers.build_response_listener(id, backend.value, settings)]
    build = clusters.build_proxied_group_clusters if plan.is_proxied else clusters.build_group_clusters
    members = backends.members(backend)
    return [replace(cluster, is_emptied=not members) for cluster in build(id, members, link_authority, settings)]


def _copy_scope(name: str) -> v3.ScopedRouteConfiguration:
    """Return a scope without virtual hosts."""
    scope = parts.copy(_SCOPE)
    scope.name = scope.key.fragments[0].string_key = scope.route_configuration.name = name
    return scope
