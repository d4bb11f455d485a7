"""What Envoy is told of each thing, whole. That Envoy takes it is tried in tests/live/edge/test_isolation.py."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import re2

from chalicelib.model.serving import pages
from chalicelib.model.serving.sites import OPERATOR, Site
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import clusters, http_manager, listeners, routes, v3
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.filters import blocking, claims, proxies, visitor_limits
from edge.envoy.names import https_listener, managers
from edge.envoy.names.managers import SCOPE_HEADER
from edge.envoy.resources import Key, Resource
from edge.envoy.start import overload, stats
from edge.envoy.start.bootstrap import build_bootstrap
from edge.process.settings import Limits, Settings
from tests.edge.envoy import messages

SETTINGS = Settings(directory=Path("/edge"), edge_port=8443, http_port=8080, limits=Limits(max_socket_kib=1))
PLAIN = Site("a.example.com", ServedTunnel("acct_a", "tn_1", "gw-1", "a.example.com"), OPERATOR)
GATEWAY = Gateway("gw-AB", "192.0.2.1", 4433)
TYPE = "type.googleapis.com/envoy"
SOCKETS = [
    {"level": "1", "name": "8", "int_value": "1024"},
    {"level": "6", "name": "25", "int_value": "1024"},
    {"level": "1", "name": "9", "int_value": "1"},
    {"level": "6", "name": "4", "int_value": "60"},
    {"level": "6", "name": "5", "int_value": "20"},
    {"level": "6", "name": "6", "int_value": "3"},
]
HOST: Any = {
    "name": "a.example.com",
    "domains": ["a.example.com"],
    "metadata": {"filter_metadata": {"edge": {"tunnel": "tn_1", "account": "acct_a"}}},
    "routes": [
        {"match": {"prefix": "/", "grpc": {}}, "route": {"cluster": "gw-1/http2", "timeout": "0s"}},
        {"match": {"prefix": "/"}, "route": {"cluster": "gw-1", "timeout": "0s"}},
    ],
    "retry_policy": {"retry_on": "reset-before-request", "num_retries": 1},
}
ROUTES = {"ignore_port_in_host_matching": True}


def answer(name: str, domain: str, status: int, text: str) -> dict[str, Any]:
    response = {"status": status, "body": {"inline_string": text}}
    route = {"match": {"prefix": "/"}, "direct_response": response}
    return {"name": name, "domains": [domain], "routes": [route]}


MISDIRECTED = "421: this connection is for another name; open one of its own.\n"


def test_the_virtual_host_of_a_tunnel() -> None:
    config = v3.RouteConfiguration()
    routes.add_site_host(config, PLAIN)
    assert [messages.to_json(it) for it in config.virtual_hosts] == [HOST]


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
    most = {"max_connections": 10**6, "max_pending_requests": 10**6, "max_requests": 10**6, "max_retries": 100}
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
            "circuit_breakers": {"thresholds": [most]},
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
    assert [messages.decode(it) for it in clusters.build_gateway_clusters(GATEWAY, "PEM", SETTINGS)] == [
        cluster("gw-AB", socket, **{field: options(http1, "60s")}),
        cluster("gw-AB/http2", private, **{field: options(http2)}),
    ]
    assert [messages.decode(it) for it in clusters.build_proxied_gateway_clusters(GATEWAY, "PEM", SETTINGS)] == [
        cluster("gw-AB/proxied", public, **{field: options(http1)}),
        cluster("gw-AB/proxied/http2", public, **{field: options(http2)}),
    ]
    of_bytes = clusters.build_bytes_cluster(GATEWAY, "PEM", SETTINGS)
    assert messages.decode(of_bytes) == cluster("gw-AB/bytes", public)
    assert of_bytes.key == Key("cluster", "gw-AB/bytes")


def test_the_upstream_of_a_gateway_near_by_names_the_tunnel_without_tls() -> None:
    near = clusters.build_bytes_cluster(replace(GATEWAY, socket="gw-AB.sock"), "PEM", SETTINGS)
    assert near.key == clusters.build_bytes_cluster(GATEWAY, "PEM", SETTINGS).key
    body = messages.decode(near)
    (endpoint,) = body["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint == {"endpoint": {"address": {"pipe": {"path": "gw-AB.sock"}}}}
    assert "PEM" not in json.dumps(body)
    behind = body["transport_socket"]["typed_config"]
    (named,) = behind["config"]["added_tlvs"]
    assert named["type"] == 0xE0
    assert named["format_string"]["text_format_source"]["inline_string"] == "%FILTER_STATE(edge.tunnel:PLAIN)%"
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
    made = clusters.build_listener_cluster("a.example.com", "tunnel/tn_1")
    assert (made.key, messages.decode(made)) == (Key("cluster", name), body)
    bound, state, passed = messages.decode(https_listener.build_https_listener(SETTINGS))["filter_chains"][0]["filters"]
    assert state["typed_config"]["on_new_connection"] == [
        {
            "object_key": "envoy.tcp_proxy.cluster",
            "format_string": {"text_format_source": {"inline_string": "name/%REQUESTED_SERVER_NAME%"}},
        }
    ]
    assert passed["typed_config"]["cluster"] == "none"
    assert bound["typed_config"]["max_connections"] == str(SETTINGS.limits.max_connections)


def chain(name: str) -> Any:
    value = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": name}
    return {"action": {"name": "chain", "typed_config": value}}


def matcher(name: str, to: str) -> Any:
    server_name = {"@type": f"{TYPE}.extensions.matching.common_inputs.network.v3.ServerNameInput"}
    tree = {
        "input": {"name": "server_name", "typed_config": server_name},
        "exact_match_map": {"map": {name: chain(to)}},
    }
    return {"filter_chain_matcher": {"matcher_tree": tree}}


@pytest.mark.parametrize("to", ["passed-on", "1.3"])
def test_a_special_name_has_an_entry_in_the_matcher_of_the_public_listener(to: str) -> None:
    part = https_listener.build_special_part("a.example.com", to, SETTINGS)
    assert part.key == Key("listener", "https", "a.example.com")
    assert messages.decode(part) == matcher("a.example.com", to)
    unreserved = messages.decode(https_listener.build_unreserved_special_part("a.example.com", to, SETTINGS))
    tree = unreserved["filter_chain_matcher"]["matcher_tree"]["exact_match_map"]["map"]["a.example.com"]["matcher"]
    (challenge,) = tree["matcher_list"]["matchers"]
    assert (tree["on_no_match"], challenge["on_match"]) == (chain(to), chain("refused"))


def test_the_public_listener_chooses_a_chain_by_the_server_name() -> None:
    redirecting, front, _ = https_listener.build_public(SETTINGS)
    assert (redirecting.key, front.key) == (Key("listener", "http"), Key("listener", "https"))
    body = messages.decode(front)
    on_no_match = body["filter_chain_matcher"].pop("on_no_match")
    assert body["filter_chain_matcher"] == matcher("", "passed-on")["filter_chain_matcher"]
    (by_wildcard,) = on_no_match["matcher"]["matcher_list"]["matchers"]
    assert by_wildcard["predicate"]["single_predicate"]["value_match"]["safe_regex"]["regex"] == " "
    normal = on_no_match["matcher"]["on_no_match"]["matcher"]
    (challenge,) = normal["matcher_list"]["matchers"]
    offered = challenge["predicate"]["single_predicate"]
    assert offered["input"]["typed_config"]["@type"].endswith(".ApplicationProtocolInput")
    assert offered["value_match"]["safe_regex"]["regex"] == ".*'acme-tls/1'.*"
    assert (challenge["on_match"], normal["on_no_match"]) == (chain("refused"), chain("1.2"))
    assert [it["name"] for it in body["filter_chains"]] == ["passed-on", "1.0", "1.1", "1.2", "1.3"]
    assert body["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 8443}}
    deferred = {"level": "6", "name": "9", "int_value": "15", "state": "STATE_LISTENING"}
    assert body["socket_options"] == [*SOCKETS, deferred]
    (manager,) = (it["typed_config"] for it in messages.decode(redirecting)["filter_chains"][0]["filters"])
    assert manager["rds"]["route_config_name"] == "http"
    assert manager["common_http_protocol_options"] == {"idle_timeout": "15s"}


@pytest.mark.parametrize(
    ("version", "oldest", "has_old_ciphers"),
    [("1.0", "TLSv1_0", True), ("1.1", "TLSv1_1", True), ("1.2", "TLSv1_2", False), ("1.3", "TLSv1_3", False)],
)
def test_each_version_of_tls_has_a_chain(version: str, oldest: str, has_old_ciphers: bool) -> None:
    chains = messages.decode(https_listener.build_https_listener(SETTINGS))["filter_chains"]
    (found,) = (it for it in chains if it["name"] == version)
    context = found["transport_socket"]["typed_config"]
    params = context["common_tls_context"]["tls_params"]
    assert params["tls_minimum_protocol_version"] == oldest
    assert ("ECDHE-RSA-AES128-SHA" in params.get("cipher_suites", [])) is has_old_ciphers
    assert context["common_tls_context"]["alpn_protocols"] == ["h2", "http/1.1"]
    assert "require_client_certificate" not in context
    assert context["disable_stateless_session_resumption"] is context["disable_stateful_session_resumption"] is True
    assert found["filters"][0]["typed_config"]["max_connections"] == str(SETTINGS.limits.max_connections)


def test_the_port_without_tls_redirects_every_host() -> None:
    def redirect(name: str, host: str) -> Any:
        to: Any = {"https_redirect": True, "response_code": "PERMANENT_REDIRECT", "port_redirect": 8443}
        return {"name": name, "domains": [host], "routes": [{"match": {"prefix": "/"}, "redirect": to}]}

    body = messages.decode(routes.build_all_redirects(SETTINGS))
    assert body == {"name": "http", "ignore_port_in_host_matching": True, "virtual_hosts": [redirect("every", "*")]}
    response = {"status": 404, "body": {"inline_string": pages.NO_CHALLENGE}}
    challenges = {"match": {"prefix": "/.well-known/acme-challenge/"}, "direct_response": response}
    own = redirect("a.example.com", "a.example.com")
    assert messages.decode(routes.build_unreserved_redirect_part("a.example.com", SETTINGS)) == {
        "virtual_hosts": [{**own, "routes": [challenges, *own["routes"]]}]
    }


def test_how_requests_are_treated() -> None:
    found = messages.to_json(managers.build_names_manager(SETTINGS))["typed_config"]
    access_log, (blocked, rate, _kept, *filters) = found.pop("access_log"), found.pop("http_filters")
    assert blocked == messages.to_json(blocking.HTTP_FILTER)
    (limit,) = rate["typed_config"]["descriptors"]
    assert limit["token_bucket"] == {"max_tokens": 1500, "tokens_per_fill": 30, "fill_interval": "0.100s"}
    (of_whom,) = rate["typed_config"]["rate_limits"]
    assert of_whom["actions"] == [{"masked_remote_address": {"v4_prefix_mask_len": 32, "v6_prefix_mask_len": 64}}]
    *others, silent, late = found.pop("local_reply_config")["mappers"]
    assert [it["status_code"] for it in others] == [503, 503, 421, 404]
    scoped, early = found.pop("scoped_routes"), found.pop("early_header_mutation_extensions")
    assert scoped["scope_key_builder"]["fragments"] == [{"header_value_extractor": {"name": SCOPE_HEADER, "index": 0}}]
    removal, addition = early[0]["typed_config"]["mutations"]
    assert removal == {"remove": SCOPE_HEADER}
    assert addition["append"]["header"] == {"key": SCOPE_HEADER, "value": "%REQUESTED_SERVER_NAME%"}
    assert found == {
        "@type": f"{TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "https",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "use_remote_address": True,
        "internal_address_config": {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]},
        "skip_xff_append": True,
        "generate_request_id": False,
        "server_header_transformation": "PASS_THROUGH",
        "max_request_headers_kb": 60,
        "request_headers_timeout": "15s",
        "stream_idle_timeout": "300s",
        "strip_trailing_host_dot": True,
        "common_http_protocol_options": {"idle_timeout": "300s", "max_connection_duration": "3600s"},
        "http_protocol_options": {"accept_http_10": True, "enable_trailers": True},
        "proxy_100_continue": True,
        "http2_protocol_options": {
            "max_concurrent_streams": 100,
            "initial_stream_window_size": 1 << 20,
            "initial_connection_window_size": 4 << 20,
        },
    }
    removed, *appended = filters[0]["typed_config"]["mutations"]["request_mutations"]
    assert removed == {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": claims.REGEX}}}}
    add = "OVERWRITE_IF_EXISTS_OR_ADD"
    assert [(*it["append"]["header"].values(), it["append"]["append_action"]) for it in appended] == [
        ("connection", "upgrade", "OVERWRITE_IF_EXISTS"),
        ("x-forwarded-for", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", add),
        ("x-forwarded-host", "%REQ(:AUTHORITY)%", add),
        ("x-forwarded-proto", "https", add),
        ("x-forwarded-port", "8443", add),
    ]
    assert filters[1]["typed_config"]["on_request_headers"] == [
        {
            "object_key": "envoy.network.upstream_server_name",
            "format_string": {
                "text_format_source": {"inline_string": "%METADATA(VIRTUAL_HOST:edge:tunnel)%"},
                "omit_empty_values": True,
            },
            "skip_if_empty": True,
        }
    ]
    assert filters[2]["typed_config"]["suppress_envoy_headers"] is True
    assert [(it["status_code"], it["filter"]["response_flag_filter"]["flags"]) for it in (silent, late)] == [
        (502, ["UF", "UC", "UH", "UR", "URX", "UO", "LR"]),
        (504, ["UT"]),
    ]
    (log,) = (it["typed_config"] for it in access_log)
    assert log["path"] == "/edge/access.log"
    words = log["log_format"]["json_format"]
    assert (words["path"], words["host"]) == ("%PATH(NQ):512%", "%REQ(:AUTHORITY):260%")


def test_a_secret_is_a_pair_and_is_shown_nowhere() -> None:
    pair = {"certificate_chain": {"inline_string": "CHAIN"}, "private_key": {"inline_string": "KEY"}}
    found = listeners.build_secret("cert_1", "CHAIN", "KEY")
    assert (found.key, messages.decode(found)) == (Key("secret", "cert_1"), {"name": "cert_1", "tls_certificate": pair})
    assert (
        found
        == listeners.build_secret("cert_1", "CHAIN", "KEY")
        != listeners.build_secret("cert_1", "CHAIN", "ANOTHER")
    )
    assert "KEY" not in repr(found)


def test_envoy_is_started_with_where_control_is_and_its_limits() -> None:
    found = build_bootstrap(SETTINGS)
    backoff = {"retry_back_off": {"base_interval": "0.100s", "max_interval": "1s"}}
    assert found["dynamic_resources"]["ads_config"] == {
        "api_type": "DELTA_GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": {"cluster_name": "control", "retry_policy": backoff}}],
    }
    address = found["static_resources"]["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
    assert address == {"endpoint": {"address": {"pipe": {"path": "discovery.sock"}}}}
    assert found["admin"] == {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}}
    assert found["layered_runtime"]["layers"][0]["static_layer"] == {
        "envoy.reloadable_features.enable_send_rst_on_user_space_socket": False,
        "re2.max_program_size.error_level": 10000,
        "envoy.resource_limits.listener.http.connection_limit": 2000,
        "envoy.resource_limits.listener.https.connection_limit": 22_000,
    }
    uncounted = [{"prefix": "cluster.name."}, {"prefix": "http.https.rds."}, {"prefix": "sds."}]
    assert found["stats_config"] == {"stats_matcher": {"exclusion_list": {"patterns": uncounted}}}
    limits = Limits(max_connections=7, max_heap_mib=3)
    connections, heap, _ = messages.to_json(overload.build_manager(limits))["resource_monitors"]
    assert connections["typed_config"]["max_active_downstream_connections"] == "4007"
    assert heap["typed_config"]["max_heap_size_bytes"] == str(3 << 20)


@pytest.mark.parametrize(
    ("networks", "principals"),
    [
        ([], []),
        (["192.0.2.0/24", "2001:db8::/32"], [("192.0.2.0", 24), ("2001:db8::", 32)]),
    ],
)
def test_requests_of_blocked_networks_are_refused(networks: list[str], principals: list[tuple[str, int]]) -> None:
    of_requests, of_bytes = (messages.decode(it)["typed_config"]["rules"] for it in blocking.build_rules(networks, ()))
    policies = of_requests.get("policies", {}).values()
    ranges = [it["remote_ip"] for policy in policies for it in policy["principals"]]
    assert of_requests["action"] == "DENY"
    assert [(it["address_prefix"], it["prefix_len"]) for it in ranges] == principals
    assert of_bytes == {"action": "DENY"}


def test_each_listener_of_bytes_refuses_blocked_networks_in_a_part_of_its_own() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    port, http = (
        listeners.build_tunnel_port_listener(tunnel, "20001", SETTINGS),
        listeners.build_http_listener(SETTINGS),
    )
    served, part = blocking.BlockedListeners(), Key("listener", port.key.name, "blocked")
    assert served.guard({port.key: port, http.key: http}) == {port.key: port, http.key: http}
    (refusing,) = served.block(["192.0.2.0/24", "2001:db8::/32"]).values()
    assert refusing
    (matcher,) = messages.decode(refusing)["filter_chain_matcher"]["matcher_list"]["matchers"]
    single = matcher["predicate"]["single_predicate"]
    assert single["input"]["typed_config"]["@type"].endswith(".SourceIPInput")
    assert single["custom_match"]["typed_config"]["cidr_ranges"] == [
        {"address_prefix": "192.0.2.0", "prefix_len": 24},
        {"address_prefix": "2001:db8::", "prefix_len": 32},
    ]
    assert matcher["on_match"]["action"]["typed_config"]["value"] == "refused"
    assert served.guard({port.key: port}) == {port.key: port, part: refusing}
    assert served.block([]) == {part: None}
    served.block(["192.0.2.0/24"])
    assert served.guard({port.key: None}) == {port.key: None, part: None}
    assert served.block([]) == {}


@pytest.mark.parametrize(
    ("banned", "host", "is_refused"),
    [
        ("bad.example", "bad.example", True),
        ("bad.example", "Bad.Example:8443", True),
        ("bad.example", "x.bad.example", False),
        ("bad.example", "badxexample", False),
        ("*bank*", "my-bank.shop.example:443", True),
        ("*bank*", "blank.example", False),
        ("*.bank.example", "a.b.bank.example", True),
        ("*.bank.example", "bank.example", False),
        ("a*-b*", "axx-b", True),
        ("a*-b*", "xaxx-b", False),
        ("*" * 200 + "xyz" + "s" * 50, "xyz" + "s" * 50, True),
    ],
)
def test_requests_for_banned_hosts_are_refused(banned: str, host: str, is_refused: bool) -> None:
    many = [f"{number:03}{'sk' * 100}.example" for number in range(40)]  # with nothing in common that RE2 joins
    for made in blocking.build_rules([], [*many[:20], banned, *many[20:]]):
        rules = messages.decode(made)["typed_config"]["rules"]
        (policy,) = rules["policies"].values()
        found = [it["requested_server_name"] if "header" not in it else it["header"] for it in policy["permissions"]]
        regexes = [it.get("string_match", it)["safe_regex"]["regex"] for it in found]
        assert (rules["action"], policy["principals"]) == ("DENY", [{"any": True}])
        assert any(re2.fullmatch(regex, host) for regex in regexes) == is_refused
        assert max(re2.compile(regex).programsize for regex in regexes) < 10_000


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


def test_connections_that_are_scarce_may_be_idle_for_less() -> None:
    actions = messages.to_json(overload.build_manager(Limits()))["actions"]
    (action,) = [it for it in actions if "typed_config" in it]
    (trigger,) = action["triggers"]
    assert action["name"] == "envoy.overload_actions.reduce_timeouts"
    assert action["typed_config"]["timer_scale_factors"] == [
        {"timer": "HTTP_DOWNSTREAM_CONNECTION_IDLE", "min_timeout": "1s"}
    ]
    assert trigger == {
        "name": "envoy.resource_monitors.injected_resource",
        "scaled": {"scaling_threshold": 0.5, "saturation_threshold": 0.9},
    }


@pytest.mark.parametrize(
    ("most", "bucket"),
    [(1, (5, 1, "1s")), (10, (50, 1, "0.100s")), (15, (75, 2, "0.133s")), (1000, (5000, 100, "0.100s"))],
)
def test_a_visitor_may_ask_evenly_and_for_some_seconds_at_once(most: int, bucket: tuple[int, int, str]) -> None:
    config = messages.to_json(visitor_limits.build_rate_limit(Limits(max_requests_per_visitor=most)))["typed_config"]
    (own,) = config["descriptors"]
    assert tuple(own["token_bucket"].values()) == bucket
    assert config["token_bucket"]["fill_interval"] == bucket[2]


def test_without_a_contact_envoys_own_answers_stay_as_they_are() -> None:
    manager = messages.to_json(http_manager.build_redirect_manager(Settings()))
    assert "local_reply_config" not in manager["typed_config"]
    manager = messages.to_json(
        http_manager.build_redirect_manager(replace(Settings(), abuse_contact="abuse@example.com"))
    )
    assert "abuse@example.com" in str(manager["typed_config"]["local_reply_config"]["body_format"])


def test_the_percent_of_a_contact_is_no_command_of_envoys() -> None:
    manager = messages.to_json(
        http_manager.build_redirect_manager(replace(Settings(), abuse_contact="50%@example.com"))
    )
    text = manager["typed_config"]["local_reply_config"]["body_format"]["text_format_source"]["inline_string"]
    assert text.startswith("%LOCAL_REPLY_BODY%")
    assert "50%%@example.com" in text


@pytest.mark.parametrize(("port", "said"), [(443, {}), (8443, {"port_redirect": 8443})])
def test_a_redirect_names_another_port_than_that_of_https(port: int, said: Mapping[str, int]) -> None:
    body = messages.decode(routes.build_all_redirects(replace(SETTINGS, edge_port=port)))
    assert body["virtual_hosts"][0]["routes"][0]["redirect"] == {
        "https_redirect": True,
        "response_code": "PERMANENT_REDIRECT",
        **said,
    }


def test_a_tunnel_with_the_proxy_protocol_has_connections_for_each_visitor() -> None:
    reading = replace(PLAIN, tunnel=replace(PLAIN.tunnel, proxy_protocol=True))
    config = v3.RouteConfiguration()
    routes.add_site_host(config, reading)
    led = [it.route.cluster for it in config.virtual_hosts[0].routes]
    assert led == ["gw-1/proxied/http2", "gw-1/proxied"]


def test_the_port_of_a_tunnel_is_bounded_by_itself_and_nobody_elses() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    found = listeners.build_tunnel_port_listener(tunnel, "20001", SETTINGS)
    assert found.key == Key("listener", "port/20001")
    body = messages.decode(found)
    assert body["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 20001}}
    assert body["socket_options"] == SOCKETS  # the client may wait for the server to speak first
    assert (body["ignore_global_conn_limit"], body["enable_reuse_port"]) == (True, False)
    within = messages.decode(listeners.build_tunnel_listener(replace(tunnel, proto="tls"), SETTINGS))
    assert [it["name"].rpartition(".")[2] for it in within["listener_filters"]] == ["proxy_protocol", "tls_inspector"]


BELIEVING = replace(SETTINGS, proxy_protocol_from=("192.0.2.0/24", "2001:db8::1"))
RANGES = [{"address_prefix": "192.0.2.0", "prefix_len": 24}, {"address_prefix": "2001:db8::1", "prefix_len": 128}]


@pytest.mark.parametrize(
    ("make", "refusals"),
    [
        (https_listener.build_https_listener, 1),
        (lambda settings: https_listener.build_special_part("a.example.com", "passed-on", settings), 0),  # it is joined
        (lambda settings: https_listener.build_special_part("*.example.com", "passed-on", settings), 0),
    ],
    ids=["all", "a name", "a wildcard"],
)
def test_behind_proxies_the_choice_of_a_chain_is_what_it_is_without_behind_the_refusal_of_others(
    make: Callable[[Settings], Resource], refusals: int
) -> None:
    matcher = messages.decode(make(BELIEVING))["filter_chain_matcher"]
    refusing = matcher.pop("matcher_list", {"matchers": []})["matchers"]
    assert matcher == {"on_no_match": {"matcher": messages.decode(make(SETTINGS))["filter_chain_matcher"]}}
    assert len(refusing) == refusals
    for other in refusing:
        single = other["predicate"]["not_matcher"]["single_predicate"]
        assert single["input"]["typed_config"]["@type"].endswith(".DirectSourceIPInput")
        trials = {"address_prefix": proxies.choose_trial_source(BELIEVING), "prefix_len": 32}
        assert single["custom_match"]["typed_config"]["cidr_ranges"] == [*RANGES, trials]
        assert other["on_match"]["action"]["typed_config"]["value"] == "refused"


def test_behind_proxies_each_public_port_reads_from_them_alone_who_a_visitor_is() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    for settings, read in ((SETTINGS, []), (BELIEVING, ["envoy.filters.listener.proxy_protocol"])):
        http, https, _ = map(messages.decode, https_listener.build_public(settings))
        port = messages.decode(listeners.build_tunnel_port_listener(tunnel, "20001", settings))
        for body in (http, https, port):
            names = [it["name"] for it in body.get("listener_filters", [])]
            assert names == [*read, *["envoy.filters.listener.tls_inspector"] * (body is https)]
        match = http["filter_chains"][0].get("filter_chain_match", {})
        assert match == ({"direct_source_prefix_ranges": RANGES} if read else {})
        matcher = proxies.guard_matcher(blocking.MATCHER, settings)
        assert port["filter_chain_matcher"] == messages.to_json(matcher)


def test_where_proxies_are_believed_a_chain_takes_their_connections_alone() -> None:
    ranges = [{"address_prefix": "192.0.2.0", "prefix_len": 24}]
    believing = replace(Settings(), proxy_protocol_from=("192.0.2.0/24",))
    match = proxies.build_match(believing)
    assert match
    assert messages.to_json(match) == {"direct_source_prefix_ranges": ranges}
    assert proxies.build_match(Settings()) is None
