"""Envoy's HTTP managers and routes of tunnels. Pure."""

from collections.abc import Mapping
from typing import cast

from chalicelib.model.serving import pages
from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters
from edge.envoy import json_parts as parts
from edge.envoy.filters import blocking, claims, kept_headers, visitor_limits
from edge.envoy.resources import UNRESERVED_PREFIX, Json, Key, Resource
from edge.process.settings import Settings

SERVER_NAME_KEY = (
    "envoy.network.upstream_server_name"  # the filter state from which Envoy takes the upstream's server name
)

_REDIRECTING = "http"  # routes of the plain HTTP port
_CHALLENGES = "/.well-known/acme-challenge/"  # paths of HTTP-01 (RFC 8555, 8.3)
# Envoy would obey x-envoy-… headers from internal addresses, which are private ones by default.
_NO_INTERNAL_ADDRESSES: Json = {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]}
_HTTP1: Json = {"accept_http_10": True, "enable_trailers": True}  # nginx proxies with HTTP/1.0 by default
# Without allow_connect: browsers would use it for WebSockets, and their Sec-WebSocket-Key would be lost.
_HTTP2: Json = {"max_concurrent_streams": 100, **parts.WINDOWS}


def build_manager(settings: Settings, *filters: Json, **more: Json) -> Json:
    """Return an HTTP manager for public connections. `more` are its routes and log."""
    limits = settings.limits
    idle: Json = {"idle_timeout": f"{limits.idle_timeout}s"}
    return parts.extension(
        "envoy.filters.network.http_connection_manager",
        f"{parts.NETWORK}.http_connection_manager.v3.HttpConnectionManager",
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
    rds: Json = {"route_config_name": _REDIRECTING, "config_source": parts.ADS}
    timeout: Json = {"idle_timeout": f"{settings.limits.header_timeout}s"}  # no client sends a second request here
    return build_manager(settings, build_router(), stat_prefix="http", rds=rds, common_http_protocol_options=timeout)


def build_all_redirects(settings: Settings) -> Resource:
    """Return the routes that redirect every host to https."""
    return Resource(
        Key("routes", _REDIRECTING), {**_common(_REDIRECTING), "virtual_hosts": [_redirect("every", "*", settings)]}
    )


def build_unreserved_redirect_part(name: str, settings: Settings) -> Resource:
    """Return the part of these for a name with TLS passed through that refuses challenges.

    Its upstream could answer a redirected challenge. For other names the routes behind TLS refuse challenges.
    """
    redirect = _redirect(name, name, settings, build_challenge_refusal())
    return Resource(Key("routes", _REDIRECTING, UNRESERVED_PREFIX + name), {"virtual_hosts": [redirect]})


def build_challenge_refusal(*headers: Json) -> Json:
    """Return the route that answers challenges of certificate authorities with 404.

    `headers` are further conditions on the request.
    """
    match: dict[str, Json] = {"prefix": _CHALLENGES, **({"headers": list(headers)} if headers else {})}
    return {"match": match, "direct_response": {"status": 404, "body": {"inline_string": pages.NO_CHALLENGE}}}


def _common(name: str) -> dict[str, Json]:
    return {"name": name, "ignore_port_in_host_matching": True}


def build_site_host(site: Site) -> Json:
    """Return the virtual host of a tunnel's name."""
    tunnel, gateway = site.tunnel, gateway_cluster(site.tunnel)
    grpc: Json = {
        "match": {"prefix": "/", "grpc": {}},
        "route": {"cluster": clusters.http2_name(gateway), "timeout": "0s"},
    }
    refused = [build_challenge_refusal()] if site.refuses_challenges else []
    return {
        "name": site.name,
        "domains": [site.name],
        "metadata": {"filter_metadata": {"edge": {"tunnel": tunnel.id, "account": tunnel.account}}},
        "routes": [*refused, grpc, {"match": {"prefix": "/"}, "route": {"cluster": gateway, "timeout": "0s"}}],
        "retry_policy": {"retry_on": "reset-before-request", "num_retries": 1},
        **kept_headers.build_host_config(site.keep_headers),
    }


def gateway_cluster(tunnel: ServedTunnel) -> str:
    """Return the name of the cluster of a tunnel's gateway, which may send the visitor's address."""
    return clusters.proxied_name(tunnel.gateway) if tunnel.proxy_protocol else tunnel.gateway


def _redirect(name: str, host: str, settings: Settings, *before: Json) -> Json:
    port = {} if settings.edge_port == 443 else {"port_redirect": settings.edge_port}
    permanent = "PERMANENT_REDIRECT"  # 308: a POST stays a POST
    redirect: Json = {"https_redirect": True, "response_code": permanent, **port}
    return {"name": name, "domains": [host], "routes": [*before, {"match": {"prefix": "/"}, "redirect": redirect}]}


def build_page_host(name: str, *domains: str, status: int, text: str) -> Json:
    """Return a virtual host that answers all requests to its domains with a page."""
    response: Json = {"status": status, "body": {"inline_string": text}}
    return {"name": name, "domains": list(domains), "routes": [{"match": {"prefix": "/"}, "direct_response": response}]}


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
    return parts.extension(
        "envoy.filters.http.header_mutation",
        f"{parts.TYPE}.extensions.filters.http.header_mutation.v3.HeaderMutation",
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
    return parts.extension(
        "envoy.filters.http.set_filter_state",
        f"{parts.TYPE}.extensions.filters.http.set_filter_state.v3.Config",
        on_request_headers=[value],
    )


def build_router() -> Json:
    """Return the last filter, which forwards requests."""
    return parts.extension(
        "envoy.filters.http.router",
        f"{parts.TYPE}.extensions.filters.http.router.v3.Router",
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
