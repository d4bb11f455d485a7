"""The clusters of gateways and of special names, whole."""

import json
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.names import https_listener
from edge.envoy.resources import Key
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS, SOCKETS, TYPE

GATEWAY = Gateway("gw-AB", "192.0.2.1", 4433)


def test_the_upstreams_of_a_gateway() -> None:
    tls = {
        "@type": f"{TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [
                {"name": LINK_SECRET, "sds_config": {"ads": {}, "resource_api_version": "V3"}}
            ],
            "validation_context": {
                "trusted_ca": {"inline_string": "PEM"},
                "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "gw-ab"}}],
            },
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        },
    }
    thresholds = {"max_connections": 10**6, "max_pending_requests": 10**6, "max_requests": 10**6, "max_retries": 100}
    address = {"socket_address": {"address": "192.0.2.1", "port_value": 4433}}
    socket = {"name": "envoy.transport_sockets.tls", "typed_config": tls}

    def cluster(name: str, socket: Any, **more: Any) -> Any:
        endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
        return {
            "name": name,
            "type": "STATIC",
            "load_assignment": {"cluster_name": name, "endpoints": endpoints},
            "transport_socket": socket,
            "connect_timeout": "10s",
            "circuit_breakers": {"thresholds": [thresholds]},
            "upstream_bind_config": {"socket_options": SOCKETS},
            **more,
        }

    def options(version: Any, idle: str = "5s") -> Any:
        options = {
            "@type": f"{TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions",
            "common_http_protocol_options": {"idle_timeout": idle, "max_headers_count": 1000},
            "explicit_http_config": version,
        }
        return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}

    def with_address(config: Any) -> Any:
        kind = f"{TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport"
        transport = {"@type": kind, "config": {"version": "V2", **config}, "transport_socket": socket}
        return {"name": "envoy.transport_sockets.upstream_proxy_protocol", "typed_config": transport}

    private, public = with_address({"added_tlvs": [{"type": 0xE1, "value": "AA=="}]}), with_address({})
    http1 = {"http_protocol_options": {"enable_trailers": True}}
    windows = {"initial_stream_window_size": 1 << 20, "initial_connection_window_size": 4 << 20}
    http2, field = {"http2_protocol_options": windows}, "typed_extension_protocol_options"
    assert [messages.decode(cluster) for cluster in clusters.build_gateway_clusters(GATEWAY, "PEM", SETTINGS)] == [
        cluster("gw-AB", socket, **{field: options(http1, "60s")}),
        cluster("gw-AB/http2", private, **{field: options(http2)}),
    ]
    assert [
        messages.decode(cluster) for cluster in clusters.build_proxied_gateway_clusters(GATEWAY, "PEM", SETTINGS)
    ] == [
        cluster("gw-AB/proxied", public, **{field: options(http1)}),
        cluster("gw-AB/proxied/http2", public, **{field: options(http2)}),
    ]
    of_bytes = clusters.build_bytes_cluster(GATEWAY, "PEM", SETTINGS)
    assert messages.decode(of_bytes) == cluster("gw-AB/bytes", public)
    assert of_bytes.key == Key("cluster", "gw-AB/bytes")


def test_the_upstream_of_a_gateway_near_by_names_the_tunnel_without_tls() -> None:
    local_cluster = clusters.build_bytes_cluster(replace(GATEWAY, socket="gw-AB.sock"), "PEM", SETTINGS)
    assert local_cluster.key == clusters.build_bytes_cluster(GATEWAY, "PEM", SETTINGS).key
    body = messages.decode(local_cluster)
    (endpoint,) = body["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint == {"endpoint": {"address": {"pipe": {"path": "gw-AB.sock"}}}}
    assert "PEM" not in json.dumps(body)
    behind = body["transport_socket"]["typed_config"]
    (tlv,) = behind["config"]["added_tlvs"]
    assert tlv["type"] == 0xE0
    assert tlv["format_string"]["text_format_source"]["inline_string"] == "%FILTER_STATE(edge.tunnel:PLAIN)%"
    assert behind["transport_socket"]["name"] == "envoy.transport_sockets.raw_buffer"


def test_a_special_name_is_sent_to_its_listener_with_the_address_of_the_visitor() -> None:
    raw = {"@type": f"{TYPE}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"}
    proxy_protocol = {
        "@type": f"{TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        "config": {"version": "V2"},
        "transport_socket": {"name": "envoy.transport_sockets.raw_buffer", "typed_config": raw},
    }
    endpoint = {"endpoint": {"address": {"envoy_internal_address": {"server_listener_name": "tunnel/tn_1"}}}}
    name = "name/a.example.com"
    body = {
        "name": name,
        "type": "STATIC",
        "alt_stat_name": "name",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "transport_socket": {"name": "envoy.transport_sockets.upstream_proxy_protocol", "typed_config": proxy_protocol},
    }
    cluster = clusters.build_listener_cluster("a.example.com", "tunnel/tn_1")
    assert (cluster.key, messages.decode(cluster)) == (Key("cluster", name), body)
    limit, state, tcp_proxy = messages.decode(https_listener.build_https_listener(SETTINGS))["filter_chains"][0][
        "filters"
    ]
    assert state["typed_config"]["on_new_connection"] == [
        {
            "object_key": "envoy.tcp_proxy.cluster",
            "format_string": {"text_format_source": {"inline_string": "name/%REQUESTED_SERVER_NAME%"}},
        }
    ]
    assert tcp_proxy["typed_config"]["cluster"] == "none"
    assert limit["typed_config"]["max_connections"] == str(SETTINGS.limits.max_connections)


@pytest.mark.parametrize(
    ("regions", "priorities"),
    [
        (["west", "east", "west"], {0: ["tn_0", "tn_2"], 1: ["tn_1"]}),
        (["east", "north"], {0: ["tn_0", "tn_1"]}),
        (["west", "west"], {0: ["tn_0", "tn_1"]}),
        ([], {0: []}),
    ],
)
def test_a_group_prefers_the_tunnels_of_its_own_region(regions: list[str], priorities: dict[int, list[str]]) -> None:
    members = [
        (
            ServedTunnel("acct_a", f"tn_{number}", f"gw-{number}", ""),
            Gateway(f"gw-{number}", "192.0.2.1", 7, region=region),
        )
        for number, region in enumerate(regions)
    ]
    west = replace(SETTINGS, region="west")
    group_clusters = clusters.build_group_clusters("bkdtg_1", members, "PEM", west)
    for resource in group_clusters:
        assignment = messages.decode(resource)["load_assignment"]
        names_by_priority = {
            locality.get("priority", 0): [
                lb_endpoint["endpoint"]["hostname"] for lb_endpoint in locality.get("lb_endpoints", ())
            ]
            for locality in assignment["endpoints"]
        }
        assert names_by_priority == priorities
        factor = {"overprovisioning_factor": 100} if len(priorities) > 1 else None
        assert assignment.get("policy") == factor
