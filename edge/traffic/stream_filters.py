"""Envoy's filters for connections of bytes: their bounds, and a line of each in the access log. Pure."""

from collections.abc import Mapping

from edge.process.settings import Settings
from edge.traffic import access_log, clusters, parts
from edge.traffic.edges import Plan
from edge.traffic.resources import Json

_ATTEMPTS = 3  # at tunnels of a group
_EARLY = 16 << 10  # bytes behind a handshake that wait for the upstream
_CLOSED = "closed"  # an upstream that is never there: Envoy closes what is led to it
_AFTER_HANDSHAKE: Mapping[str, Json] = {  # else a tunnel would hear of clients that are refused then
    "upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE",
    "max_early_data_bytes": _EARLY,
}


def of_edge(plan: Plan, settings: Settings) -> list[Json]:
    """Return the filters of the connections of an edge."""
    whose = {"account": plan.edge.account, "edge": plan.edge.id, "tunnel": "%UPSTREAM_HOST_NAME_WITHOUT_PORT%"}
    mode = _AFTER_HANDSHAKE if any(plan.live.values()) else {}
    return [bound(settings), _proxy(settings, whose, **_upstreams(plan), **mode)]


def bound(settings: Settings) -> Json:
    """Return the filter that closes connections of an edge when there are too many."""
    return parts.typed(
        "envoy.filters.network.connection_limit",
        f"{parts.NETWORK}.connection_limit.v3.ConnectionLimit",
        stat_prefix="edge",
        max_connections=settings.limits.max_connections_per_edge,
    )


def _upstreams(plan: Plan) -> Mapping[str, Json]:
    name, closing = clusters.stream(plan.edge.id), sum(weight for _, weight in plan.led.closing)
    if not closing:
        return {"cluster": name}
    leading = sum(weight for _, weight in plan.led.leading)
    shared: Json = [{"name": name, "weight": leading}, {"name": _CLOSED, "weight": closing}]
    return {"weighted_clusters": {"clusters": shared}}


def _proxy(settings: Settings, whose: Mapping[str, str], **more: Json) -> Json:
    return parts.typed(
        "envoy.filters.network.tcp_proxy",
        f"{parts.NETWORK}.tcp_proxy.v3.TcpProxy",
        stat_prefix="stream",
        idle_timeout=f"{settings.limits.idle_timeout}s",
        max_connect_attempts=_ATTEMPTS,
        access_log=[access_log.of_connections(settings, whose)],
        **more,
    )
