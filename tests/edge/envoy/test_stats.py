"""Which of Envoy's counts are exported. tests/live/edge/test_prometheus.py shows that Envoy has them."""

import re

import pytest

from edge.envoy.start import stats

ENVOYS = b"""# TYPE envoy_bare counter
envoy_bare{envoy_bare="https"} 1
envoy_bare{by="envoy_bare"} 2
# TYPE envoy_whole_total counter
envoy_whole_total{} 3
# TYPE envoy_now gauge
envoy_now{} 4
"""
TOLD = b"""# HELP envoy_bare_total See docs/edge-operations.md.
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
    assert stats.format_for_prometheus(ENVOYS) == TOLD
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
    wanted = stats.PATH.partition("filter=")[2]
    assert bool(re.search(wanted, name)) is is_told
