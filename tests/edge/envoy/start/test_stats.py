"""Which of Envoy's counts are exported, and the pressure of connections in them.

tests/live/edge/test_prometheus.py shows that Envoy has these counts.
"""

import re

import pytest

from edge.envoy.start import stats
from edge.process.settings import Limits

ENVOYS = b"""# TYPE envoy_bare counter
envoy_bare{envoy_bare="https"} 1
envoy_bare{by="envoy_bare"} 2
# TYPE envoy_whole_total counter
envoy_whole_total{} 3
# TYPE envoy_now gauge
envoy_now{} 4
"""
FORMATTED = b"""# HELP envoy_bare_total See docs/edge-operations.md.
# TYPE envoy_bare_total counter
envoy_bare_total{envoy_bare="https"} 1
envoy_bare_total{by="envoy_bare"} 2
# HELP envoy_whole_total See docs/edge-operations.md.
# TYPE envoy_whole_total counter
envoy_whole_total{} 3
# HELP envoy_now See docs/edge-operations.md.
# TYPE envoy_now gauge
envoy_now{} 4
"""


def test_each_metric_has_a_help_and_each_counter_ends_as_prometheus_wants() -> None:
    assert stats.format_for_prometheus(ENVOYS) == FORMATTED
    assert stats.format_for_prometheus(b"") == b""


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("listener.http.downstream_cx_active", True),
        ("listener.https.downstream_cx_active", True),
        ("listener.https.downstream_cx_overflow", True),
        ("listener.https.downstream_pre_cx_timeout", True),
        ("listener.https.downstream_cx_transport_socket_connect_timeout", True),
        ("listener.port.downstream_cx_active", False),
        ("http.https.downstream_rq_5xx", True),
        ("http.https.downstream_rq_header_timeout", True),
        ("http.https.rbac.denied", True),
        ("blocked.rbac.denied", True),
        ("visitor.http_local_rate_limit.rate_limited", True),
        ("connection_limit.edge.limited_connections", True),
        ("server.memory_allocated", True),
        ("overload.envoy.overload_actions.reduce_timeouts.active", True),
        ("control_plane.connected_state", True),
        ("cluster.name/a.example.com.upstream_cx_total", False),
        ("cluster.x.listener.http.downstream_cx_active", False),
        ("listener.http.downstream_cx_active.a.example.com", False),
        ("server.days_until_first_cert_expiring", False),
    ],
)
def test_only_the_counts_of_the_whole_are_told_and_no_name(name: str, is_told: bool) -> None:
    pattern = stats.PATH.partition("filter=")[2]
    assert bool(re.search(pattern, name)) is is_told


@pytest.mark.parametrize(
    ("https", "http", "pressure"), [(None, None, 0), (0, 0, 0), (30, 1, 0.5), (60, 0, 1), (6, 15, 0.75), (90, 0, 1.5)]
)
def test_the_pressure_of_connections_is_that_of_the_fuller_port(
    https: int | None, http: int | None, pressure: float
) -> None:
    text = "# TYPE envoy_connection_limit_active_connections gauge\n"
    if https is not None:
        text += f'envoy_connection_limit_active_connections{{envoy_connection_limit_prefix="https"}} {https}\n'
    if http is not None:
        text += f'envoy_listener_downstream_cx_active{{envoy_listener_address="http"}} {http}\n'
    assert stats.compute_pressure(text, Limits(max_connections=60, max_http_connections=20)) == pressure
