"""The clusters of a route with a circuit breaker, as Envoy reads them."""

from chalicelib.model.edges.modules.circuit_breaker import CircuitBreakerModule
from edge.envoy import upstream_http, v3
from edge.envoy.names import circuits
from edge.envoy.resources import encode
from tests.edge.envoy import messages

MODULE = CircuitBreakerModule(tripped_duration=30, rolling_window=5, volume_threshold=20, error_percent=20)


def test_a_route_counts_failures_in_a_cluster_of_its_own() -> None:
    group = encode(v3.Cluster(name="group/bkdtg_1"))
    (circuit,) = circuits.build_circuits("edghtsrt_1", MODULE, [group])
    assert messages.decode(circuit) == {
        "name": "circuit/edghtsrt_1/group/bkdtg_1",
        "load_assignment": {"cluster_name": "circuit/edghtsrt_1/group/bkdtg_1"},
        "common_lb_config": {"healthy_panic_threshold": {}},
        "outlier_detection": {
            "interval": "5s",
            "base_ejection_time": "30s",
            "max_ejection_time": "30s",
            "max_ejection_percent": 100,
            "enforcing_consecutive_5xx": 0,
            "enforcing_success_rate": 0,
            "enforcing_failure_percentage": 100,
            "failure_percentage_threshold": 20,
            "failure_percentage_minimum_hosts": 1,
            "failure_percentage_request_volume": 20,
        },
    }


def test_idle_connections_end_soon_because_routes_do_not_share_them() -> None:
    shared, of_visitors = (
        encode(v3.Cluster(name="group", typed_extension_protocol_options={upstream_http.OPTIONS: options}))
        for options in (upstream_http.SHARED_HTTP1, upstream_http.VISITOR_HTTP2)
    )
    built_clusters = [
        v3.Cluster.FromString(resource.encoded)
        for resource in circuits.build_circuits("r", MODULE, [shared, of_visitors])
    ]
    options = [cluster.typed_extension_protocol_options[upstream_http.OPTIONS] for cluster in built_clusters]
    assert options == [upstream_http.VISITOR_HTTP1, upstream_http.VISITOR_HTTP2]
