"""Envoy's internal listener of an HTTP response. All routes share it, so its body is stored once. Pure."""

from collections.abc import Mapping

from chalicelib.model.edges.backends import HttpResponse
from edge.envoy import clusters, routes
from edge.envoy import json_parts as parts
from edge.envoy.resources import Json, Key, Resource
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
    listener: Json = {
        "name": name,
        "internal_listener": {},
        "filter_chains": [{"filters": [_manager(name, response, settings)]}],
    }
    return Resource(Key("listener", name), listener)


def _manager(name: str, response: HttpResponse, settings: Settings) -> Json:
    host: Json = {"name": "every", "domains": ["*"], "routes": [_route(response)]}
    route_config: Json = {
        "name": name,
        "virtual_hosts": [host],
        "max_direct_response_body_size_bytes": _MAX_BODY,
        "response_headers_to_add": _headers(response.headers),
    }
    return parts.extension(
        "envoy.filters.network.http_connection_manager",
        f"{parts.NETWORK}.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="answer",
        route_config=route_config,
        http_filters=[routes.build_router()],
        generate_request_id=False,
        server_header_transformation="PASS_THROUGH",
        max_request_headers_kb=settings.limits.max_header_kib + _MORE_KIB,
    )


def _route(response: HttpResponse) -> Json:
    has_body = response.body and response.status_code not in _WITHOUT_BODY
    body: dict[str, Json] = {"body": {"inline_string": response.body}} if has_body else {}
    return {"match": {"prefix": "/"}, "direct_response": {"status": response.status_code, **body}}


def _headers(headers: Mapping[str, str]) -> Json:
    kept = {name: value for name, value in headers.items() if name.lower() not in _CONNECTION_HEADERS}
    return [
        {
            "header": {"key": name, "value": value.replace("%", "%%")},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            "keep_empty_value": True,
        }
        for name, value in kept.items()
    ]
