"""Builds Envoy's routes of tunnels, and of the port without TLS. This file does no I/O."""

from chalicelib.model.serving import pages
from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters, parts, v3
from edge.envoy.filters import kept_headers, passwords, visitor_addresses
from edge.envoy.resources import Resource, encode
from edge.process.settings import Settings

EVERY_PATH, NO_TIMEOUT = v3.RouteMatch(prefix="/"), v3.Duration()
_CHALLENGES = "/.well-known/acme-challenge/"  # paths of HTTP-01 (RFC 8555, 8.3)
_GRPC = v3.RouteMatch(prefix="/", grpc=v3.RouteMatch.GrpcRouteMatchOptions())
_SITE = v3.VirtualHost(
    routes=[
        v3.Route(match=_GRPC, route=v3.RouteAction(timeout=NO_TIMEOUT)),
        v3.Route(match=EVERY_PATH, route=v3.RouteAction(timeout=NO_TIMEOUT)),
    ],
    retry_policy=v3.RetryPolicy(retry_on="reset-before-request", num_retries=parts.number(1)),
)
REDIRECTING = "http"  # the name of the route configuration of the port without TLS
CHALLENGE_CLUSTER = "challenges"  # the name of the cluster for control, which answers challenges


def build_all_redirects(settings: Settings) -> Resource:
    """Return the routes that redirect every host to https, and send challenges to control."""
    challenges = v3.Route(match=v3.RouteMatch(prefix=_CHALLENGES), route=v3.RouteAction(cluster=CHALLENGE_CLUSTER))
    return encode(
        v3.RouteConfiguration(
            name=REDIRECTING,
            ignore_port_in_host_matching=True,
            virtual_hosts=[v3.VirtualHost(name="every", domains=["*"], routes=[challenges, _redirect(settings)])],
        )
    )


def build_challenge_refusal(*headers: v3.HeaderMatcher) -> v3.Route:
    """Return the route that answers HTTP-01 challenges with 404.

    `headers` are further conditions that a request must meet.
    """
    match = v3.RouteMatch(prefix=_CHALLENGES, headers=headers)
    return v3.Route(match=match, direct_response=parts.respond(pages.NO_CHALLENGE))


def add_site_host(config: v3.RouteConfiguration, site: Site) -> None:
    """Add the virtual host of a tunnel's name."""
    host, gateway = config.virtual_hosts.add(), gateway_cluster(site.tunnel)
    host.CopyFrom(_SITE)
    host.name = site.name
    host.domains.append(site.name)
    parts.set_metadata(host.metadata, tunnel=site.tunnel.id, account=site.tunnel.account)
    grpc, http = host.routes
    grpc.route.cluster, http.route.cluster = clusters.http2_name(gateway), gateway
    if site.refuses_challenges:
        host.routes.insert(0, build_challenge_refusal())
    kept_headers.set_host_config(host, site.keep_headers)
    visitor_addresses.restrict(host, site.refusals)
    if site.basic_auth:
        facts = {"account": site.tunnel.account, "edge": "", "holder": site.reservation}
        passwords.require(host, facts, site.basic_auth)


def gateway_cluster(tunnel: ServedTunnel) -> str:
    """Return the name of the cluster for a tunnel's gateway.

    With `proxy_protocol`, the cluster sends the visitor's address to the tunnel.
    """
    return clusters.proxied_name(tunnel.gateway) if tunnel.proxy_protocol else tunnel.gateway


def build_page_host(name: str, *domains: str, page: str) -> v3.VirtualHost:
    """Return a virtual host that answers all requests to its domains with a page."""
    route = v3.Route(match=EVERY_PATH, direct_response=parts.respond(page))
    return v3.VirtualHost(name=name, domains=domains, routes=[route])


def _redirect(settings: Settings) -> v3.Route:
    """Return the redirect to https. Its status is 308, so a POST stays a POST."""
    port = 0 if settings.edge_port == 443 else settings.edge_port
    redirect = v3.RedirectAction(
        https_redirect=True, response_code=v3.RedirectAction.PERMANENT_REDIRECT, port_redirect=port
    )
    return v3.Route(match=EVERY_PATH, redirect=redirect)
