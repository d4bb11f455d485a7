"""The filters of connections of bytes, whole: their bounds, where they lead, and when they connect."""

from typing import Any

import pytest

from chalicelib.model.serving.edge_plans import Plan, PlannedHost
from chalicelib.model.serving.streams import Destinations
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import stream_filters
from edge.process.settings import Limits, Settings
from tests.edge.envoy import messages
from tests.edge.plan.values import A
from tests.edge.plan.worlds import edge

TLS = edge(id="edgtls_1")
LIVE_HOST, UPSTREAM_HOST = (
    PlannedHost("a.example.com", "live", certificate="cert_1"),
    PlannedHost("a.example.com", "live"),
)
AFTER_HANDSHAKE = {"upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE", "max_early_data_bytes": 16384}
ALL = Destinations((("bkdtg_1", 10),))
DESTINATIONS = Destinations((("bkdtg_1", 3), ("bkdhr_1", 1), ("bkdtg_2", 4), ("bkdhr_2", 2)))


def proxy(plan: Plan) -> dict[str, Any]:
    """Return the configuration of the filter that passes bytes on, without its log."""
    edge_filters = [
        messages.to_json(edge_filter) for edge_filter in stream_filters.build_edge_filters(plan, Settings())
    ]
    assert [edge_filter["name"] for edge_filter in edge_filters[:-1]] == [
        "envoy.filters.network.connection_limit",
        "blocked/bytes",
    ]
    config = dict(edge_filters[-1]["typed_config"])
    assert config.pop("access_log")[0]["typed_config"]["log_format"]["json_format"]["account"] == A
    return config


@pytest.mark.parametrize(
    ("host", "destinations", "expected"),
    [
        (LIVE_HOST, ALL, {"cluster": "stream/edgtls_1", **AFTER_HANDSHAKE}),
        (UPSTREAM_HOST, ALL, {"cluster": "stream/edgtls_1"}),
        (
            UPSTREAM_HOST,
            DESTINATIONS,
            {
                "weighted_clusters": {
                    "clusters": [{"name": "stream/edgtls_1", "weight": 7}, {"name": "closed", "weight": 3}]
                }
            },
        ),
    ],
)
def test_an_edge_passes_bytes_to_its_groups_and_the_share_of_others_to_nobody(
    host: PlannedHost, destinations: Destinations, expected: dict[str, Any]
) -> None:
    assert proxy(Plan(TLS, (host,), destinations=destinations)) == {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "stream",
        "idle_timeout": "7440s",
        "max_connect_attempts": 3,
        **expected,
    }


def test_a_tunnel_is_passed_bytes_on_no_more_connections_than_it_has_channels() -> None:
    settings = Settings(limits=Limits(max_channels_per_tunnel=7))
    tunnel = ServedTunnel(A, "tn_1", "gw-1", "a.example.com", proto="tls")
    limit, blocked, tlv_filter, tcp_proxy = map(messages.to_json, stream_filters.build_tunnel_filters(tunnel, settings))
    assert (limit["typed_config"]["stat_prefix"], limit["typed_config"]["max_connections"]) == ("tunnel", "7")
    assert blocked["name"] == "blocked/bytes"
    text = {"text_format_source": {"inline_string": "tn_1"}}
    assert tlv_filter["typed_config"]["on_new_connection"] == [
        {"object_key": "envoy.network.upstream_server_name", "format_string": text},
        {
            "object_key": "edge.tunnel",
            "factory_key": "envoy.string",
            "format_string": text,
            "shared_with_upstream": "ONCE",
        },
    ]
    assert tcp_proxy["typed_config"]["cluster"] == "gw-1/bytes"
    assert tcp_proxy["typed_config"]["access_log"][0]["typed_config"]["log_format"]["json_format"] == {
        "time": "%START_TIME%",
        "account": A,
        "tunnel": "tn_1",
        "host": "%REQUESTED_SERVER_NAME%",
        "port": "%DOWNSTREAM_LOCAL_PORT%",
        "flags": "%RESPONSE_FLAGS%",
        "ended": "%DOWNSTREAM_LOCAL_CLOSE_REASON%",
        "handshake": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%",
        "bytes_in": "%BYTES_RECEIVED%",
        "bytes_out": "%BYTES_SENT%",
        "milliseconds": "%DURATION%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    }
