"""Envoy's filters for byte connections: limits, and access log. Pure."""

from collections.abc import Mapping

from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import access_log, clusters
from edge.envoy import json_parts as parts
from edge.envoy.filters import blocking
from edge.envoy.resources import Json
from edge.envoy.routes import SERVER_NAME_KEY
from edge.process.settings import Settings

_ATTEMPTS = 3  # at different tunnels of a group
_EARLY = 16 << 10  # bytes that may arrive before the upstream is connected
_CLOSED = "closed"  # a cluster that never exists, so that Envoy closes its connections
_AFTER_HANDSHAKE: Mapping[str, Json] = {  # or a tunnel would see clients that fail the handshake
    "upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE",
    "max_early_data_bytes": _EARLY,
}


def build_edge_filters(plan: Plan, settings: Settings) -> list[Json]:
    """Return the filters of an edge's byte connections."""
    whose = {"account": plan.edge.account, "edge": plan.edge.id, "tunnel": "%UPSTREAM_HOST_NAME_WITHOUT_PORT%"}
    mode = _AFTER_HANDSHAKE if any(plan.certificates.values()) else {}
    return [
        build_connection_limit(settings),
        blocking.build_network_filter(),
        _proxy(settings, whose, **_upstreams(plan), **mode),
    ]


def build_tunnel_filters(tunnel: ServedTunnel, settings: Settings) -> list[Json]:
    """Return the filters of a tunnel's byte connections, limited to its number of channels."""
    whose = {"account": tunnel.account, "tunnel": tunnel.id}
    most, upstream = settings.limits.max_channels_per_tunnel, clusters.bytes_name(tunnel.gateway)
    first = _connection_limit("tunnel", most), blocking.build_network_filter(), _server_name(tunnel.id)
    return [*first, _proxy(settings, whose, cluster=upstream)]


def build_connection_limit(settings: Settings) -> Json:
    """Return the filter that limits an edge's connections."""
    return _connection_limit("edge", settings.limits.max_connections_per_edge)


def _server_name(tunnel: str) -> Json:
    """Return the filter that passes the tunnel's id as server name, and to a gateway on this host."""
    text: Json = {"text_format_source": {"inline_string": tunnel}}
    named: Json = {"object_key": SERVER_NAME_KEY, "format_string": text}
    own: Mapping[str, Json] = {"object_key": clusters.TUNNEL_KEY, "factory_key": "envoy.string"}
    passed: Json = {**own, "format_string": text, "shared_with_upstream": "ONCE"}
    kind = f"{parts.NETWORK}.set_filter_state.v3.Config"
    return parts.extension("envoy.filters.network.set_filter_state", kind, on_new_connection=[named, passed])


def _connection_limit(stat_prefix: str, most: int) -> Json:
    return parts.extension(
        "envoy.filters.network.connection_limit",
        f"{parts.NETWORK}.connection_limit.v3.ConnectionLimit",
        stat_prefix=stat_prefix,
        max_connections=most,
    )


def _upstreams(plan: Plan) -> Mapping[str, Json]:
    name, closing = clusters.stream_name(plan), sum(weight for _, weight in plan.destinations.responses)
    if not closing:
        return {"cluster": name}
    leading = sum(weight for _, weight in plan.destinations.groups)
    shared: Json = [{"name": name, "weight": leading}, {"name": _CLOSED, "weight": closing}]
    return {"weighted_clusters": {"clusters": shared}}


def _proxy(settings: Settings, whose: Mapping[str, str], **more: Json) -> Json:
    return parts.extension(
        "envoy.filters.network.tcp_proxy",
        f"{parts.NETWORK}.tcp_proxy.v3.TcpProxy",
        stat_prefix="stream",
        idle_timeout=f"{settings.limits.tcp_idle_timeout}s",
        max_connect_attempts=_ATTEMPTS,
        access_log=[access_log.build_connection_log(settings, whose)],
        **more,
    )
