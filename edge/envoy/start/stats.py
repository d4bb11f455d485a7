"""Builds the listener for Envoy's metrics, and converts them for Prometheus. This file does no I/O."""

import re

from edge.envoy import parts, v3
from edge.process.settings import ADMIN_SOCKET, STATS_SOCKET, Limits, Settings

READY = "/ready"  # this path answers 200 while Envoy serves, 503 while it starts or drains
_COUNTS = "|".join(
    [
        r"listener\.https?\.downstream_(cx_active|cx_total|cx_overflow|pre_cx_active|pre_cx_timeout)",
        r"listener\.https?\.(downstream_global_cx_overflow|downstream_cx_transport_socket_connect_timeout)",
        r"http\.https?\.downstream_rq_(active|total|1xx|2xx|3xx|4xx|5xx|header_timeout|idle_timeout)",
        r"http\.https?\.(rbac\.denied|downstream_cx_rx_bytes_total|downstream_cx_tx_bytes_total)",
        r"listener\.(port|certificate)\.no_filter_chain_match",
        r"blocked\.rbac\.denied",
        r"visitor\.http_local_rate_limit\.rate_limited",
        r"connection_limit\..*\.limited_connections",
        r"server\.(memory_allocated|memory_physical_size|uptime)",
        r"overload\..*\.(active|pressure)",
        r"control_plane\.connected_state",
    ]
)
_NAME = re.compile(r"\benvoy_\w+")
PATH = f"/stats/prometheus?filter=^({_COUNTS})$"
CONNECTIONS = (
    r"/stats/prometheus?filter=^(connection_limit\.https\.active_connections|listener\.http\.downstream_cx_active)$"
)
_VALUE = re.compile(r'^\w+\{[^}]*"(https?)"\} (\d+)$', re.MULTILINE)


def compute_pressure(text: str, limits: Limits) -> float:
    """Return the largest used share of Envoy's connection limits.

    The share is at least 1 if a limit is reached. `text` is Envoy's response to a request for the path CONNECTIONS.
    """
    bounds = {"http": limits.max_http_connections, "https": limits.max_connections}
    return max([0.0, *(int(count) / bounds[name] for name, count in _VALUE.findall(text))])


def format_for_prometheus(text: bytes) -> bytes:
    """Return Envoy's metrics for Prometheus.

    Each metric has a help text. The names of counters end in `_total`.
    """
    lines: list[str] = []
    renamed: dict[str, str] = {}
    for line in text.decode().splitlines():
        name = _NAME.search(line)
        if name and line.startswith("# TYPE "):
            is_bare = line.endswith(" counter") and not name[0].endswith("_total")
            renamed[name[0]] = f"{name[0]}_total" if is_bare else name[0]
            lines.append(f"# HELP {renamed[name[0]]} See docs/edge-operations.md.")
        lines.append(_NAME.sub(lambda match: renamed.get(match[0], match[0]), line, count=1))
    return "".join(f"{line}\n" for line in lines).encode()


def build_cluster(settings: Settings) -> v3.Cluster:
    """Return the cluster for Envoy's admin interface, which has the metrics."""
    address = v3.Address(pipe=v3.Pipe(path=settings.own_file(ADMIN_SOCKET).name))
    return v3.Cluster(name="admin", type=v3.Cluster.STATIC, load_assignment=parts.assignment("admin", address))


def build_listener(settings: Settings) -> v3.Listener:
    """Return the listener that serves Envoy's metrics and readiness at a socket."""
    to_admin = v3.RouteAction(cluster="admin")
    routes = [v3.Route(match=v3.RouteMatch(path=path), route=to_admin) for path in ("/stats/prometheus", READY)]
    manager = v3.HttpConnectionManager(
        stat_prefix="stats",
        http_protocol_options=v3.Http1ProtocolOptions(accept_http_10=True),
        # By default, Envoy waits five seconds before it closes connections during a drain.
        drain_timeout=parts.seconds(0.001),
        route_config=v3.RouteConfiguration(virtual_hosts=[v3.VirtualHost(name="stats", domains=["*"], routes=routes)]),
        http_filters=[v3.HttpFilter(name="envoy.filters.http.router", typed_config=parts.pack(v3.Router()))],
    )
    name = "envoy.filters.network.http_connection_manager"
    return v3.Listener(
        name="stats",
        address=v3.Address(pipe=v3.Pipe(path=settings.own_file(STATS_SOCKET).name, mode=0o660)),
        filter_chains=[v3.FilterChain(filters=[v3.Filter(name=name, typed_config=parts.pack(manager))])],
        ignore_global_conn_limit=True,  # the metrics stay readable when the global limit is reached
    )
