"""Builds clusters for routes with a circuit breaker, which count the failures of each tunnel. This file does no I/O.

Envoy counts in windows that follow each other. At the end of a window, Envoy ejects tunnels with too many failures, and
uses the tunnels that it ejected earlier again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from chalicelib.model.edges.modules.circuit_breaker import CircuitBreakerModule
from edge.envoy import clusters, parts, upstream_http, v3
from edge.envoy.resources import Resource, encode


def build_circuits(route: str, module: CircuitBreakerModule, groups: Iterable[Resource]) -> Iterator[Resource]:
    """Yield clusters that only this route uses: copies of the clusters `groups`."""
    for group in groups:
        cluster = v3.Cluster.FromString(group.encoded)
        cluster.name = cluster.load_assignment.cluster_name = clusters.circuit_name(route, cluster.name)
        cluster.outlier_detection.CopyFrom(_detection(module))
        options = cluster.typed_extension_protocol_options
        # Only one route uses this cluster, so its idle connections are closed soon. Each occupies an SSH channel.
        if options.get(upstream_http.OPTIONS) == upstream_http.SHARED_HTTP1:
            options[upstream_http.OPTIONS].CopyFrom(upstream_http.VISITOR_HTTP1)
        # by default, Envoy sends requests to ejected tunnels if more than half of the tunnels are ejected
        cluster.common_lb_config.healthy_panic_threshold.CopyFrom(v3.Percent(value=0))
        yield replace(encode(cluster), is_emptied=group.is_emptied)


def _detection(module: CircuitBreakerModule) -> v3.OutlierDetection:
    """Return Envoy's outlier detection, which ejects a tunnel only because of its share of failures.

    By default, Envoy ejects a tunnel longer each time. Here, every ejection lasts equally long.
    """
    lasting, zero = parts.seconds(module.tripped_duration), parts.number(0)
    return v3.OutlierDetection(
        interval=parts.seconds(module.rolling_window),
        base_ejection_time=lasting,
        max_ejection_time=lasting,
        max_ejection_percent=parts.number(100),
        enforcing_consecutive_5xx=zero,
        enforcing_success_rate=zero,
        enforcing_failure_percentage=parts.number(100),
        failure_percentage_threshold=parts.number(module.error_percent),
        failure_percentage_minimum_hosts=parts.number(1),
        failure_percentage_request_volume=parts.number(module.volume_threshold),
    )
