"""What Envoy is told of an edge. That it takes and obeys it is tried in tests/live/edge/test_https_edges.py."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import re2

from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.served import ServedRoute
from edge.envoy import answers, clusters, edge_listeners, edge_routes
from edge.envoy.resources import Resource
from edge.plan import edges
from edge.plan.edges import Plan
from edge.process.settings import Settings
from tests.edge.plan.served import serving
from tests.edge.plan.values import EDGE, GATEWAY, GROUP, HOST, NOW
from tests.edge.plan.worlds import authority, edge, group, route, tunnel

SETTINGS = Settings()


OF_CONNECTION = ["Content-Length", "HOST", "Connection", "keep-alive", "proxy-connection", "TE", "Trailer", "upgrade"]
OF_CONNECTION.append("Transfer-Encoding")


def planned(**asked: Any) -> Plan:
    authorities = (authority(pem="PEM 1"), authority("ca_2", pem="PEM 2"))
    world = serving(GATEWAY, tunnel(), group(), *authorities, edge(route(), **asked)).world
    return edges.make_plan(world.edges[asked.get("id", EDGE)], world, NOW)


def chain(plan: Plan) -> Any:
    body: Any = edge_listeners.build_edge_listener(plan, "cert_1", SETTINGS).body
    (found,) = body["filter_chains"]
    return found


def headers_said(plan: Plan) -> dict[str, str]:
    """Return the headers that are set, behind the removal of what a client claims."""
    filters = {it["name"]: it for it in chain(plan)["filters"][1]["typed_config"]["http_filters"]}
    mutations = filters["envoy.filters.http.header_mutation"]["typed_config"]["mutations"]
    removed, *said = mutations["request_mutations"]
    assert "remove_on_match" in removed
    return {it["append"]["header"]["key"]: it["append"]["header"]["value"] for it in said}


@pytest.mark.parametrize(
    ("version", "least", "has_old_ciphers"),
    [
        (None, "TLSv1_2", False),
        ("1.0", "TLSv1_0", True),
        ("1.1", "TLSv1_1", True),
        ("1.2", "TLSv1_2", False),
        ("1.3", "TLSv1_3", False),
    ],
)
def test_the_oldest_version_of_tls_is_the_edges(version: str | None, least: str, has_old_ciphers: bool) -> None:
    params = chain(planned(version=version))["transport_socket"]["typed_config"]["common_tls_context"]["tls_params"]
    assert params["tls_minimum_protocol_version"] == least
    assert ("ECDHE-RSA-AES128-SHA" in params.get("cipher_suites", [])) is has_old_ciphers
    assert "signature_algorithms" not in params


def test_mutual_tls_wants_a_certificate_of_the_authorities_and_tells_it_upstream() -> None:
    plan = planned(authorities=["ca_2", "ca_1"])
    context = chain(plan)["transport_socket"]["typed_config"]
    assert context["require_client_certificate"] is True
    assert context["common_tls_context"]["validation_context"] == {"trusted_ca": {"inline_string": "PEM 2\nPEM 1"}}
    assert "ed25519" in context["common_tls_context"]["tls_params"]["signature_algorithms"]
    assert headers_said(plan)["x-forwarded-client-cert"] == (
        'Hash=%DOWNSTREAM_PEER_FINGERPRINT_256%;Cert="%DOWNSTREAM_PEER_CERT%";Subject="%DOWNSTREAM_PEER_SUBJECT%"'
    )


def test_without_mutual_tls_no_certificate_is_wanted_and_none_told() -> None:
    context = chain(planned())["transport_socket"]["typed_config"]
    assert "require_client_certificate" not in context
    assert "validation_context" not in context["common_tls_context"]
    assert "x-forwarded-client-cert" not in headers_said(planned())


@pytest.mark.parametrize(
    ("asked", "certificate", "protocols", "wants_client"),
    [
        ({}, "cert_1", ["h2", "http/1.1"], False),
        ({"id": "edgtls_1", "backend": GROUP}, "cert_1", None, False),
        ({"id": "edgtls_1", "backend": GROUP, "authorities": ["ca_1"]}, "cert_1", None, True),
        ({"place": "upstream"}, "", None, False),
    ],
)
def test_tls_ends_at_an_edge_with_its_own_certificate_or_upstream(
    asked: Mapping[str, Any], certificate: str, protocols: list[str] | None, wants_client: bool
) -> None:
    body: Any = edge_listeners.build_edge_listener(planned(**asked), certificate, SETTINGS).body
    (found,) = body["filter_chains"]
    is_stream = bool(asked)
    read = [it["name"].rpartition(".")[2] for it in body["listener_filters"]]
    assert read == ["proxy_protocol", *["tls_inspector"] * is_stream]  # the name is a word of the log of connections
    assert found["filters"][-1]["name"].endswith("tcp_proxy" if is_stream else "http_connection_manager")
    assert ("transport_socket" in found) is bool(certificate)
    if certificate:
        context = found["transport_socket"]["typed_config"]
        common = context["common_tls_context"]
        assert [it["name"] for it in common["tls_certificate_sds_secret_configs"]] == [certificate]
        assert (common.get("alpn_protocols"), "require_client_certificate" in context) == (protocols, wants_client)


def test_a_port_of_an_edge_passes_bytes_on() -> None:
    plan = planned(id="edgtcp_1", hosts=["tunnels.localhost:20001"], backend=GROUP)
    body: Any = edge_listeners.build_edge_port_listener(plan, "20001", SETTINGS).body
    *first, proxy = body["filter_chains"][0]["filters"]
    assert [it["name"] for it in first] == ["envoy.filters.network.connection_limit", "blocked/bytes"]
    assert proxy["typed_config"]["cluster"] == "stream/edgtcp_1"


def test_hosts_that_are_not_live_are_in_no_route() -> None:
    some = planned(hosts=[HOST, "shop.example.com"])
    body: Any = edge_routes.build_edge_routes(some).body
    assert [host["domains"] for host in body["virtual_hosts"]] == [[HOST], ["*"]]
    body = edge_routes.build_edge_routes(planned(hosts=["shop.example.com"])).body
    assert [host["domains"] for host in body["virtual_hosts"]] == [["*"]]


def test_an_edges_connections_are_bounded() -> None:
    bound = chain(planned())["filters"][0]["typed_config"]
    assert (bound["max_connections"], bound["stat_prefix"]) == (SETTINGS.limits.max_connections_per_edge, "edge")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"version": "1.3"}),
        ({}, {"authorities": ["ca_1"]}),
        ({"authorities": ["ca_1"]}, {"authorities": ["ca_1", "ca_2"]}),
    ],
)
def test_what_is_asked_in_the_handshake_names_the_routes(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    assert planned(**first).routes_name != planned(**second).routes_name
    assert planned(**first).routes_name == planned(**first).routes_name


def test_a_groups_tunnels_share_an_address_and_differ_by_their_name() -> None:
    members = [(tunnel("tn_1"), GATEWAY), (tunnel("tn_2"), GATEWAY)]
    http1, http2 = clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)
    body: Any = http1.body
    (endpoints,) = body["load_assignment"]["endpoints"]
    address = {"socket_address": {"address": "192.0.2.1", "port_value": 4433}}
    assert endpoints["lb_endpoints"] == [
        {"endpoint": {"hostname": id, "address": address}} for id in ("tn_1", "tn_2")
    ]  # fmt: skip
    tls = body["transport_socket"]["typed_config"]
    assert tls["auto_host_sni"] is True
    names = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert [it["matcher"]["exact"] for it in names] == ["gw-1"]
    assert (http1.key.name, http2.key.name) == (f"group/{GROUP}", f"group/{GROUP}/http2")


def who_hears(body: Any) -> str:
    """Return who hears from Envoy of the visitor of a connection: nobody, the gateway, or the tunnel too."""
    socket = body["transport_socket"]
    if not socket["name"].endswith("upstream_proxy_protocol"):
        return "nobody"
    return (
        "the gateway"
        if 0xE1 in [it["type"] for it in socket["typed_config"]["config"].get("added_tlvs", [])]
        else "all"
    )


def test_a_groups_tunnels_are_believed_at_all_their_gateways() -> None:
    members = [(tunnel("tn_1", gateway="gw-2"), replace(GATEWAY, id="gw-2")), (tunnel("tn_2"), GATEWAY)]
    body: Any = clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)[0].body
    context = body["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"]
    assert [it["matcher"]["exact"] for it in context["match_typed_subject_alt_names"]] == ["gw-1", "gw-2"]


@pytest.mark.parametrize(
    ("of_group", "heard_by", "kept"),
    [
        (clusters.build_group_clusters, {"": "nobody", "/http2": "the gateway"}, ["60s", "5s"]),
        (clusters.build_proxied_group_clusters, {"/proxied": "all", "/proxied/http2": "all"}, ["5s", "5s"]),
    ],
)
def test_where_a_connection_says_whose_it_is_it_is_kept_for_less(
    of_group: Callable[..., list[Resource]], heard_by: Mapping[str, str], kept: list[str]
) -> None:
    bodies: Any = [it.body for it in of_group(GROUP, [(tunnel("tn_1"), GATEWAY)], "PEM", SETTINGS)]
    assert {it["name"].removeprefix(f"group/{GROUP}"): who_hears(it) for it in bodies} == heard_by
    options = [next(iter(it["typed_extension_protocol_options"].values())) for it in bodies]
    assert [it["common_http_protocol_options"]["idle_timeout"] for it in options] == kept


@pytest.mark.parametrize(("is_proxied", "heard_by"), [(False, "the gateway"), (True, "all")])
def test_the_groups_of_a_stream_share_by_weight_and_hear_of_visitors(is_proxied: bool, heard_by: str) -> None:
    plan = replace(planned(id="edgtls_1", backend=GROUP), is_proxied=is_proxied)
    groups = [(GROUP, 3, [(tunnel("tn_1"), GATEWAY)]), ("bkdtg_2", 1, [])]
    body: Any = clusters.build_stream_cluster(plan, groups, "PEM", SETTINGS).body
    shares = body["load_assignment"]["endpoints"]
    assert [(it["locality"]["sub_zone"], it["load_balancing_weight"], len(it["lb_endpoints"])) for it in shares] == [
        (GROUP, 3, 1),
        ("bkdtg_2", 1, 0),
    ]
    assert (body["common_lb_config"], who_hears(body)) == ({"locality_weighted_lb_config": {}}, heard_by)


def test_a_group_without_tunnels_believes_no_gateway() -> None:
    body: Any = clusters.build_group_clusters(GROUP, [], "PEM", SETTINGS)[0].body
    context = body["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"]
    assert [it["matcher"]["exact"] for it in context["match_typed_subject_alt_names"]] == ["none"]


@pytest.mark.parametrize(
    ("response", "answer", "headers"),
    [
        (HttpResponse(), {"status": 200}, {}),
        (HttpResponse(body="x"), {"status": 200, "body": {"inline_string": "x"}}, {}),
        (HttpResponse(status_code=204, body="x"), {"status": 204}, {}),
        (HttpResponse(status_code=304, body="x"), {"status": 304}, {}),
        (HttpResponse(headers={"X-A": "100%", "B": ""}), {"status": 200}, {"X-A": "100%%", "B": ""}),
        (HttpResponse(status_code=205, body="x"), {"status": 205}, {}),
        *((HttpResponse(headers={name: "x"}), {"status": 200}, {}) for name in OF_CONNECTION),
    ],
)
def test_a_response_is_as_stored_without_what_is_of_the_connection(
    response: HttpResponse, answer: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    body: Any = answers.build_response_listener("bkdhr_1", response, SETTINGS).body
    config = body["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
    assert config["virtual_hosts"][0]["routes"][0]["direct_response"] == answer
    assert {it["header"]["key"]: it["header"]["value"] for it in config["response_headers_to_add"]} == headers


def test_grpc_goes_to_a_group_by_http2() -> None:
    body: Any = edge_routes.build_edge_routes(planned()).body
    _, first, second, *_ = body["virtual_hosts"][0]["routes"]
    assert (first["match"]["grpc"], first["route"]["cluster"]) == ({}, f"group/{GROUP}/http2")
    assert (second["route"]["cluster"], second["route"]["timeout"]) == (f"group/{GROUP}", "0s")
    assert body["virtual_hosts"][0]["domains"] == [HOST]


FILTER = UserAgentModule(deny=["bot"])


@pytest.mark.parametrize(
    ("routes", "is_refusing"),
    [
        ([route(agents=FILTER)], False),
        ([route(), route("/a", id="edghtsrt_2")], False),
        ([route(), route("/a", id="edghtsrt_2", agents=FILTER)], True),
        ([route(), route("/a", id="edghtsrt_2", unenforced=("oauth",))], True),
    ],
)
def test_where_one_of_several_routes_holds_visitors_back_ambiguous_paths_are_refused(
    routes: Sequence[ServedRoute], is_refusing: bool
) -> None:
    world = serving(GATEWAY, tunnel(), group(), edge(*routes)).world
    body: Any = edge_routes.build_edge_routes(edges.make_plan(world.edges[EDGE], world, NOW)).body
    challenges, first, *_ = body["virtual_hosts"][0]["routes"]
    assert challenges["match"]["prefix"] == "/.well-known/acme-challenge/"
    assert (first.get("direct_response", {}).get("status") == 400) is is_refusing
    if is_refusing:
        (condition,) = first["match"]["headers"]
        regex = condition["string_match"]["safe_regex"]["regex"]
        assert [path for path in (*PLAIN_PATHS, *AMBIGUOUS_PATHS) if re2.fullmatch(regex, path)] == AMBIGUOUS_PATHS


PLAIN_PATHS = [
    "/",
    "/a",
    "/a/",
    "/a.b/.c/..d",
    "/a?//",
    "/a?b=/../%61",
    "/%20%C3%A9",
    "/a%40b%3Ac%5B%5D%7B%60",
    "/100%25",
    "/a%25zb?;",
]
AMBIGUOUS_PATHS = [
    *("//a", "/b//a", "/./a", "/b/../a", "/b/..", "/b/.?x", "/..;/a", "/b\\a", "/b%5Ca", "/b%2fa", "/b%2F..%2Fa"),
    *("/%61", "/%41", "/%7A", "/%30", "/%2e/a", "/%2D", "/%5f", "/%7e", "/%4f", "/%5a"),
    *("/;/a", "/a;x", "/a%3b", "/x/..%3B/a", "/%252e%252e/a", "/%2561", "/%25252e", "/a%00", "/a%0A", "/a%1f", "/a%7F"),
]
