"""Builds Envoy's filters for byte connections: limits, forwarding and access log. This file does no I/O.

A byte connection is a visitor's connection that the edge forwards without reading HTTP.
"""

from collections.abc import Mapping
from functools import cache

from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters, parts, v3
from edge.envoy.filters import access_log, blocking
from edge.envoy.http_manager import SERVER_NAME_KEY
from edge.process.settings import Settings

_ATTEMPTS = 3  # the most attempts to connect, to different tunnels of a group
_EARLY = 16 << 10  # the most bytes that may arrive before the upstream is connected
_CLOSED = "closed"  # the name of a cluster that never exists: Envoy closes connections to it
_AFTER_HANDSHAKE = v3.TcpProxy(  # otherwise, a tunnel would get connections of clients that fail the handshake
    upstream_connect_mode=v3.ON_DOWNSTREAM_TLS_HANDSHAKE, max_early_data_bytes=parts.number(_EARLY)
)
_SERVER_NAME = v3.NetworkFilterState(  # a template: `_server_name` sets the values to the tunnel's id
    on_new_connection=[
        v3.FilterStateValue(object_key=SERVER_NAME_KEY, format_string=parts.format_string("")),
        v3.FilterStateValue(
            object_key=clusters.TUNNEL_KEY,
            factory_key="envoy.string",
            format_string=parts.format_string(""),
            shared_with_upstream=v3.FilterStateValue.ONCE,
        ),
    ]
)


def build_edge_filters(plan: Plan, settings: Settings) -> list[v3.Filter]:
    """Return the filters for byte connections to an edge."""
    owner = {"account": plan.edge.account, "edge": plan.edge.id, "tunnel": "%UPSTREAM_HOST_NAME_WITHOUT_PORT%"}
    proxy = _build_proxy(settings, owner)
    _set_upstreams(proxy, plan)
    if any(plan.certificates.values()):
        proxy.MergeFrom(_AFTER_HANDSHAKE)
    return [build_edge_limit(settings), blocking.NETWORK_FILTER, _proxy_filter(proxy)]


def build_tunnel_filters(tunnel: ServedTunnel, settings: Settings) -> list[v3.Filter]:
    """Return the filters for byte connections to a tunnel. The connections have the same limit as SSH channels."""
    proxy = _build_proxy(settings, {"account": tunnel.account, "tunnel": tunnel.id})
    proxy.cluster = clusters.bytes_name(tunnel.gateway)
    limit = build_connection_limit("tunnel", settings.limits.max_channels_per_tunnel)
    return [limit, blocking.NETWORK_FILTER, _server_name(tunnel.id), _proxy_filter(proxy)]


def build_edge_limit(settings: Settings) -> v3.Filter:
    """Return the filter that limits an edge's connections."""
    return build_connection_limit("edge", settings.limits.max_connections_per_edge)


@cache
def build_connection_limit(name: str, max_connections: int) -> v3.Filter:
    """Return the filter that limits the connections of a filter chain."""
    limit = v3.ConnectionLimit(stat_prefix=name, max_connections=v3.UInt64Value(value=max_connections))
    return v3.Filter(name="envoy.filters.network.connection_limit", typed_config=parts.pack(limit))


def _server_name(tunnel: str) -> v3.Filter:
    """Return the filter that stores a tunnel's id as filter state.

    Clusters send the id as the server name (TLS), and as a value in PROXY protocol headers.
    """
    state = parts.copy(_SERVER_NAME)
    for value in state.on_new_connection:
        value.format_string.text_format_source.inline_string = tunnel
    return build_filter_state(state)


def build_filter_state(state: v3.NetworkFilterState) -> v3.Filter:
    """Return the filter that sets filter state of new connections, which other filters read."""
    return v3.Filter(name="envoy.filters.network.set_filter_state", typed_config=parts.pack(state))


def _set_upstreams(proxy: v3.TcpProxy, plan: Plan) -> None:
    """Set the clusters to which a proxy filter forwards an edge's connections, with their weights.

    Connections to a backend with a fixed HTTP response are closed.
    """
    name, closing = clusters.stream_name(plan), sum(weight for _, weight in plan.destinations.responses)
    if not closing:
        proxy.cluster = name
        return
    shares = {name: sum(weight for _, weight in plan.destinations.groups), _CLOSED: closing}
    for cluster, weight in shares.items():
        proxy.weighted_clusters.clusters.add(name=cluster, weight=weight)


def _build_proxy(settings: Settings, owner: Mapping[str, str]) -> v3.TcpProxy:
    proxy = parts.copy(_proxy_template(settings.limits.tcp_idle_timeout))
    proxy.access_log.append(access_log.build_connection_log(settings, owner))
    return proxy


@cache
def _proxy_template(idle_timeout: int) -> v3.TcpProxy:
    return v3.TcpProxy(
        stat_prefix="stream",
        idle_timeout=parts.seconds(idle_timeout),
        max_connect_attempts=parts.number(_ATTEMPTS),
    )


def _proxy_filter(proxy: v3.TcpProxy) -> v3.Filter:
    return v3.Filter(name="envoy.filters.network.tcp_proxy", typed_config=parts.pack(proxy))
