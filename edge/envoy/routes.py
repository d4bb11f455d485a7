"""Envoy's routes of tunnels, and of the plain HTTP port. Pure."""

from envoy.config.route.v3.route_components_pb2 import (
    HeaderMatcher,
    RedirectAction,
    RetryPolicy,
    Route,
    RouteAction,
    RouteMatch,
    VirtualHost,
)
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from google.protobuf.duration_pb2 import Duration

from chalicelib.model.serving import pages
from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters, parts
from edge.envoy.filters import kept_headers
from edge.envoy.resources import UNRESERVED_PREFIX, Key, Resource, encode, encode_part
from edge.process.settings import Settings

EVERY_PATH, NO_TIMEOUT = RouteMatch(prefix="/"), Duration()
_CHALLENGES = "/.well-known/acme-challenge/"  # paths of HTTP-01 (RFC 8555, 8.3)
_GRPC = RouteMatch(prefix="/", grpc=RouteMatch.GrpcRouteMatchOptions())
_RETRY = RetryPolicy(retry_on="reset-before-request", num_retries=parts.number(1))
REDIRECTING = "http"  # routes of the plain HTTP port


def build_all_redirects(settings: Settings) -> Resource:
    """Return the routes that redirect every host to https."""
    return encode(
        RouteConfiguration(
            name=REDIRECTING,
            ignore_port_in_host_matching=True,
            virtual_hosts=[VirtualHost(name="every", domains=["*"], routes=[_redirect(settings)])],
        )
    )


def build_unreserved_redirect_part(name: str, settings: Settings) -> Resource:
    """Return the part of these for a name with TLS passed through that refuses challenges.

    Its upstream could answer a redirected challenge. For other names the routes behind TLS refuse challenges.
    """
    host = VirtualHost(name=name, domains=[name], routes=[build_challenge_refusal(), _redirect(settings)])
    return encode_part(Key("routes", REDIRECTING, UNRESERVED_PREFIX + name), RouteConfiguration(virtual_hosts=[host]))


def build_challenge_refusal(*headers: HeaderMatcher) -> Route:
    """Return the route that answers challenges of certificate authorities with 404.

    `headers` are further conditions on the request.
    """
    match = RouteMatch(prefix=_CHALLENGES, headers=headers)
    return Route(match=match, direct_response=parts.respond(pages.NO_CHALLENGE))


def build_site_host(site: Site) -> VirtualHost:
    """Return the virtual host of a tunnel's name."""
    tunnel, gateway = site.tunnel, gateway_cluster(site.tunnel)
    return VirtualHost(
        name=site.name,
        domains=[site.name],
        metadata=parts.metadata(tunnel=tunnel.id, account=tunnel.account),
        routes=[
            *([build_challenge_refusal()] if site.refuses_challenges else []),
            Route(match=_GRPC, route=RouteAction(cluster=clusters.http2_name(gateway), timeout=NO_TIMEOUT)),
            Route(match=EVERY_PATH, route=RouteAction(cluster=gateway, timeout=NO_TIMEOUT)),
        ],
        retry_policy=_RETRY,
        typed_per_filter_config=kept_headers.build_host_config(site.keep_headers),
    )


def gateway_cluster(tunnel: ServedTunnel) -> str:
    """Return the name of the cluster of a tunnel's gateway, which may send the visitor's address."""
    return clusters.proxied_name(tunnel.gateway) if tunnel.proxy_protocol else tunnel.gateway


def build_page_host(name: str, *domains: str, page: str) -> VirtualHost:
    """Return a virtual host that answers all requests to its domains with a page."""
    return VirtualHost(
        name=name, domains=domains, routes=[Route(match=EVERY_PATH, direct_response=parts.respond(page))]
    )


def _redirect(settings: Settings) -> Route:
    """Return the redirect to https. Its status is 308, so a POST stays a POST."""
    port = 0 if settings.edge_port == 443 else settings.edge_port
    redirect = RedirectAction(https_redirect=True, response_code=RedirectAction.PERMANENT_REDIRECT, port_redirect=port)
    return Route(match=EVERY_PATH, redirect=redirect)
