"""Builds an internal listener that sends a fixed HTTP response.

All routes with this response share the listener, so Envoy stores the body once. This file does no I/O.
"""

from functools import cache

from chalicelib.model.edges.backends import HttpResponse
from edge.envoy import clusters, http_manager, parts, v3
from edge.envoy.resources import Resource, encode
from edge.envoy.routes import EVERY_PATH
from edge.process.settings import Settings

# KiB added to the limit on request headers, because the edge adds headers such as the client's certificate.
_MORE_KIB = 36
_MAX_BODY = 64 << 10
_WITHOUT_BODY = frozenset({204, 205, 304})
# Headers that a fixed response cannot set: headers about the connection (RFC 9110, 7.6.1), which would break the
# connection, and Host, which Envoy rejects.
_CONNECTION_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_REPLACE = v3.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
_LISTENER = v3.Listener(
    internal_listener=v3.Listener.InternalListenerConfig(),
    filter_chains=[v3.FilterChain(filters=[v3.Filter(name=http_manager.NAME)])],
)


def build_response_listener(backend: str, response: HttpResponse, settings: Settings) -> Resource:
    """Return the listener that answers every request with the same response."""
    manager = parts.copy(_manager(settings.limits.max_header_kib))
    config = manager.route_config
    config.name = clusters.response_name(backend)
    direct = config.virtual_hosts[0].routes[0].direct_response
    direct.status = response.status_code
    if response.body and response.status_code not in _WITHOUT_BODY:
        direct.body.inline_string = response.body
    for name, value in response.headers.items():
        if name.lower() not in _CONNECTION_HEADERS:
            header = config.response_headers_to_add.add(append_action=_REPLACE, keep_empty_value=True).header
            header.key, header.value = name, value.replace("%", "%%")
    listener = parts.copy(_LISTENER)
    listener.name = config.name
    listener.filter_chains[0].filters[0].typed_config.Pack(manager, deterministic=True)
    return encode(listener)


@cache
def _manager(max_header_kib: int) -> v3.HttpConnectionManager:
    route = v3.Route(match=EVERY_PATH, direct_response=v3.DirectResponseAction())
    config = v3.RouteConfiguration(
        virtual_hosts=[v3.VirtualHost(name="every", domains=["*"], routes=[route])],
        max_direct_response_body_size_bytes=parts.number(_MAX_BODY),
    )
    return v3.HttpConnectionManager(
        stat_prefix="answer",
        route_config=config,
        http_filters=[http_manager.ROUTER],
        generate_request_id=v3.BoolValue(value=False),
        server_header_transformation=v3.HttpConnectionManager.PASS_THROUGH,
        max_request_headers_kb=parts.number(max_header_kib + _MORE_KIB),
    )
