"""Envoy's HTTP managers and routes of tunnels. Pure."""

from collections.abc import Mapping
from typing import cast

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
from edge.envoy import clusters, json_parts, parts
from edge.envoy.filters import blocking, claims, kept_headers, visitor_limits
from edge.envoy.resources import UNRESERVED_PREFIX, Json, Key, Resource, encode, encode_part
from edge.process.settings import Settings

SERVER_NAME_KEY = (
    "envoy.network.upstream_server_name"  # the filter state from which Envoy takes the upstream's server name
)

EVERY_PATH, NO_TIMEOUT = RouteMatch(prefix="/"), Duration()
_CHALLENGES = "/.well-known/acme-challenge/"  # paths of HTTP-01 (RFC 8555, 8.3)
_GRPC = RouteMatch(prefix="/", grpc=RouteMatch.GrpcRouteMatchOptions())
_RETRY = RetryPolicy(retry_on="reset-before-request", num_retries=parts.number(1))
_REDIRECTING = "http"  # routes of the plain HTTP port
# Envoy would obey x-envoy-… headers from internal addresses, which are private ones by default.
_NO_INTERNAL_ADDRESSES: Json = {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]}
_HTTP1: Json = {"accept_http_10": True, "enable_trailers": True}  # nginx proxies with HTTP/1.0 by default
# Without allow_connect: browsers would use it for WebSockets, and their Sec-WebSocket-Key would be lost.
_HTTP2: Json = {"max_concurrent_streams": 100, **json_parts.WINDOWS}


def build_manager(settings: Settings, *filters: Json, **more: Json) -> Json:
    """Return an HTTP manager for public connections. `more` are its routes and log."""
    limits = settings.limits
    idle: Json = {"idle_timeout": f"{limits.idle_timeout}s"}
    return json_parts.extension(
        "envoy.filters.network.http_connection_manager",
        f"{json_parts.NETWORK}.http_connection_manager.v3.HttpConnectionManager",
        use_remote_address=True,
        internal_address_config=_NO_INTERNAL_ADDRESSES,
        skip_xff_append=True,
        generate_request_id=False,
        server_header_transformation="PASS_THROUGH",
        max_request_headers_kb=limits.max_header_kib,
        request_headers_timeout=f"{limits.header_timeout}s",
        stream_idle_timeout=f"{limits.idle_timeout}s",
        strip_trailing_host_dot=True,
        http_protocol_options=_HTTP1,
        proxy_100_continue=True,  # so that the upstream can reject a request before its body
        http2_protocol_options=_HTTP2,
        http_filters=[blocking.build_http_filter(), visitor_limits.build_rate_limit(limits), *filters],
        **{
            "common_http_protocol_options": idle,
            **more,
            **_contact_replies(settings, more.get("local_reply_config", {})),
        },
    )


def _contact_replies(settings: Settings, replies: Json) -> Mapping[str, Json]:
    """Return Envoy's own responses with the abuse contact, if there is one."""
    if not settings.abuse_contact:
        return {}
    text = pages.abuse_line(settings.abuse_contact).replace("%", "%%")  # % starts a command of Envoy
    source: Json = {"text_format_source": {"inline_string": f"%LOCAL_REPLY_BODY%{text}"}}
    return {"local_reply_config": {**cast(Mapping[str, Json], replies), "body_format": source}}


def build_redirect_manager(settings: Settings) -> Json:
    """Return the HTTP manager of the plain HTTP port."""
    rds: Json = {"route_config_name": _REDIRECTING, "config_source": json_parts.ADS}
    timeout: Json = {"idle_timeout": f"{settings.limits.header_timeout}s"}  # no client sends a second request here
    return build_manager(settings, build_router(), stat_prefix="http", rds=rds, common_http_protocol_options=timeout)


def build_all_redirects(settings: Settings) -> Resource:
    """Return the routes that redirect every host to https."""
    return encode(
        RouteConfiguration(
            name=_REDIRECTING,
            ignore_port_in_host_matching=True,
            virtual_hosts=[VirtualHost(name="every", domains=["*"], routes=[_redirect(settings)])],
        )
    )


def build_unreserved_redirect_part(name: str, settings: Settings) -> Resource:
    """Return the part of these for a name with TLS passed through that refuses challenges.

    Its upstream could answer a redirected challenge. For other names the routes behind TLS refuse challenges.
    """
    host = VirtualHost(name=name, domains=[name], routes=[build_challenge_refusal(), _redirect(settings)])
    return encode_part(Key("routes", _REDIRECTING, UNRESERVED_PREFIX + name), RouteConfiguration(virtual_hosts=[host]))


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


def build_client_headers(settings: Settings, more: Mapping[str, str]) -> Json:
    """Return the filter that replaces a client's claims (see `claims`) with true headers.

    `more` are further headers to set. Only upgrades still have `Connection` here. It is reset to `upgrade`, since a
    proxy behind the tunnel would remove the headers that it names (RFC 9110, 7.6.1).
    """
    removed: Json = {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": claims.REGEX}}}}
    forwarded = {
        "x-forwarded-for": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "x-forwarded-host": "%REQ(:AUTHORITY)%",
        "x-forwarded-proto": "https",
        "x-forwarded-port": str(settings.edge_port),
        **more,
    }
    said = [_append(name, value, "OVERWRITE_IF_EXISTS_OR_ADD") for name, value in forwarded.items()]
    return json_parts.extension(
        "envoy.filters.http.header_mutation",
        f"{json_parts.TYPE}.extensions.filters.http.header_mutation.v3.HeaderMutation",
        mutations={"request_mutations": [removed, _append("connection", "upgrade", "OVERWRITE_IF_EXISTS"), *said]},
    )


def build_upstream_name() -> Json:
    """Return the filter that uses the tunnel's id as the upstream's server name.

    Envoy pools upstream connections by it.
    """
    value: Json = {
        "object_key": SERVER_NAME_KEY,
        "format_string": {
            "text_format_source": {"inline_string": "%METADATA(VIRTUAL_HOST:edge:tunnel)%"},
            "omit_empty_values": True,
        },
        "skip_if_empty": True,
    }
    return json_parts.extension(
        "envoy.filters.http.set_filter_state",
        f"{json_parts.TYPE}.extensions.filters.http.set_filter_state.v3.Config",
        on_request_headers=[value],
    )


def build_router() -> Json:
    """Return the last filter, which forwards requests."""
    return json_parts.extension(
        "envoy.filters.http.router",
        f"{json_parts.TYPE}.extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
        dynamic_stats=False,  # counts by upstream and status are unused
    )


def build_local_replies(*others: Json) -> Json:
    """Return the responses for when the gateway or the upstream does not answer. `others` come first."""
    silent: Json = {"response_flag_filter": {"flags": ["UF", "UC", "UH", "UR", "URX", "UO", "LR"]}}
    late: Json = {"response_flag_filter": {"flags": ["UT"]}}
    return {
        "mappers": [
            *others,
            {"filter": silent, "status_code": 502, "body": {"inline_string": pages.NO_ANSWER}},
            {"filter": late, "status_code": 504, "body": {"inline_string": pages.NO_ANSWER}},
        ]
    }


def _append(name: str, value: str, action: str) -> Json:
    return {"append": {"header": {"key": name, "value": value}, "append_action": action}}
