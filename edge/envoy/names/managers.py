"""Envoy's HTTP manager of loaded names. Tunnels and edges share it. Pure."""

from collections.abc import Mapping

from chalicelib.model.serving import pages
from edge.envoy import edge_routes, routes
from edge.envoy import json_parts as parts
from edge.envoy.access_log import build_request_log
from edge.envoy.filters import kept_headers
from edge.envoy.resources import Json
from edge.process.settings import Settings

SCOPE_HEADER = "x-envoy-scope"  # `claims` removes it before the request goes upstream
_SCOPES = "names"
_TUNNEL = '{"operators":[{"command":"METADATA","param":"VIRTUAL_HOST:edge:tunnel"},"UPSTREAM_HOST_NAME_WITHOUT_PORT"]}'
_WORDS = {**edge_routes.WORDS, "tunnel": f"%COALESCE({_TUNNEL})%"}


def build_names_manager(settings: Settings, requirement: str = "", client: Mapping[str, str] | None = None) -> Json:
    """Return the HTTP manager that finds the routes of a connection by its server name.

    `requirement` names what its handshakes require beyond the default. `client` are headers about the client's
    certificate.
    """
    duration: Json = {
        "idle_timeout": f"{settings.limits.idle_timeout}s",
        "max_connection_duration": f"{settings.limits.max_connection_duration}s",
    }
    return routes.build_manager(
        settings,
        kept_headers.build_recorder(),
        routes.build_client_headers(settings, client or {}),
        routes.build_upstream_name(),
        routes.build_router(),
        stat_prefix="https",
        scoped_routes=_scoped_routes(),
        early_header_mutation_extensions=[_set_scope(requirement)],
        upgrade_configs=[{"upgrade_type": "websocket"}],
        local_reply_config=_local_replies(),
        access_log=[build_request_log(settings, _WORDS)],
        common_http_protocol_options=duration,
    )


def scope_of(name: str, requirement: str) -> str:
    """Return the scope of a server name under a requirement on handshakes.

    Open connections that met earlier requirements only do not find the scope of stricter ones.
    """
    return f"{requirement}/{name}" if requirement else name


def _scoped_routes() -> Json:
    by_header: Json = {"header_value_extractor": {"name": SCOPE_HEADER, "index": 0}}
    return {
        "name": _SCOPES,
        "scope_key_builder": {"fragments": [by_header]},
        "rds_config_source": parts.ADS,
        "scoped_rds": {"scoped_rds_config_source": parts.ADS},
    }


def _set_scope(requirement: str) -> Json:
    """Return the extension that replaces the scope header of a visitor before routes are looked up."""
    kind = f"{parts.TYPE}.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    scope: Json = {"key": SCOPE_HEADER, "value": scope_of("%REQUESTED_SERVER_NAME%", requirement)}
    mutations: Json = [
        {"remove": SCOPE_HEADER},
        {"append": {"header": scope, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}},
    ]
    return parts.extension("envoy.http.early_header_mutation.header_mutation", kind, mutations=mutations)


def _local_replies() -> Json:
    """Return Envoy's own responses. Those for edges differ from those for tunnels. Without a scope it is a 404."""
    unknown = edge_routes.build_reply(["NR"], 404, pages.NO_TUNNEL)
    return routes.build_local_replies(*map(_for_edges, edge_routes.REPLIES), unknown)


def _for_edges(reply: Mapping[str, Json]) -> Json:
    kind = f"{parts.TYPE}.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
    is_edge = parts.extension("cel", kind, expression="'edge' in xds.virtual_host_metadata.filter_metadata.edge")
    both: Json = {"and_filter": {"filters": [reply["filter"], {"extension_filter": is_edge}]}}
    return {**reply, "filter": both}
