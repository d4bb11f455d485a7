"""Envoy's internal listener of an HTTP response. All routes share it, so its body is stored once. Pure."""

from collections.abc import Iterator, Mapping

from chalicelib.model.edges.backends import HttpResponse
from edge.envoy import clusters, http_manager, parts, v3
from edge.envoy.resources import Resource, encode
from edge.envoy.routes import EVERY_PATH
from edge.process.settings import Settings

_MORE_KIB = 36  # for headers that the edge adds, such as the client's certificate
_MAX_BODY = 64 << 10
_WITHOUT_BODY = frozenset({204, 205, 304})
# Headers of the connection (RFC 9110, 7.6.1), which would break it, and host, which Envoy rejects.
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


def build_response_listener(backend: str, response: HttpResponse, settings: Settings) -> Resource:
    """Return the listener that gives every request the same response."""
    name = clusters.response_name(backend)
    manager = v3.HttpConnectionManager(
        stat_prefix="answer",
        route_config=_build_routes(name, response),
        http_filters=[http_manager.ROUTER],
        generate_request_id=v3.BoolValue(value=False),
        server_header_transformation=v3.HttpConnectionManager.PASS_THROUGH,
        max_request_headers_kb=parts.number(settings.limits.max_header_kib + _MORE_KIB),
    )
    chain = v3.FilterChain(filters=[v3.Filter(name=http_manager.NAME, typed_config=parts.pack(manager))])
    return encode(v3.Listener(name=name, internal_listener=v3.Listener.InternalListenerConfig(), filter_chains=[chain]))


def _build_routes(name: str, response: HttpResponse) -> v3.RouteConfiguration:
    has_body = response.body and response.status_code not in _WITHOUT_BODY
    body = parts.text(response.body) if has_body else None
    route = v3.Route(match=EVERY_PATH, direct_response=v3.DirectResponseAction(status=response.status_code, body=body))
    return v3.RouteConfiguration(
        name=name,
        virtual_hosts=[v3.VirtualHost(name="every", domains=["*"], routes=[route])],
        max_direct_response_body_size_bytes=parts.number(_MAX_BODY),
        response_headers_to_add=_headers(response.headers),
    )


def _headers(headers: Mapping[str, str]) -> Iterator[v3.HeaderValueOption]:
    for name, value in headers.items():
        if name.lower() not in _CONNECTION_HEADERS:
            option = parts.set_header(name, value.replace("%", "%%"))
            option.keep_empty_value = True
            yield option
