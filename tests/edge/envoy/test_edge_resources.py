"""What Envoy is told of an edge. That it takes and obeys it is tried in tests/live/edge/test_https_edges.py."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import re2

from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import answers, clusters, edge_listeners, edge_routes, v3
from edge.envoy.resources import Resource
from edge.process.settings import Settings
from tests.edge.envoy import messages
from tests.edge.plan.worlds import EDGE, GATEWAY, GROUP, HOST, authority, edge, group, plan_of, route, tunnel

SETTINGS = Settings()


OF_CONNECTION = ["Content-Length", "HOST", "Connection", "keep-alive", "proxy-connection", "TE", "Trailer", "upgrade"]
OF_CONNECTION.append("Transfer-Encoding")


def planned(**asked: Any) -> Plan:
    authorities = (authority(pem="PEM 1"), authority("ca_2", pem="PEM 2"))
    return plan_of(asked.get("id", EDGE), GATEWAY, tunnel(), group(), *authorities, edge(route(), **asked))


def chain(plan: Plan) -> Any:
    body = messages.decode(edge_listeners.build_on_demand_listener(plan, SETTINGS))
    (found,) = body["filter_chains"]
    return found


def headers_said(plan: Plan) -> dict[str, str]:
    """Return the headers that are set, behind the removal of what a client claims."""
    filters = {it["name"]: it for it in chain(plan)["filters"][1]["typed_config"]["http_filters"]}
    mutations = filters["envoy.filters.http.header_mutation"]["typed_config"]["mutations"]
    removed, *said = mutations["request_mutations"]
    assert "remove_on_match" in removed
    return {it["append"]["header"]["key"]: it["append"]["header"]["value"] for it in said}


def test_mutual_tls_wants_a_certificate_of_the_authorities_and_tells_it_upstream() -> None:
    plan = planned(authorities=["ca_2", "ca_1"])
    context = chain(plan)["transport_socket"]["typed_config"]
    assert context["require_client_certificate"] is True
    assert context["common_tls_context"]["validation_context"] == {"trusted_ca": {"inline_string": "PEM 2\nPEM 1"}}
    assert "ed25519" in context["common_tls_context"]["tls_params"]["signature_algorithms"]
    assert headers_said(plan)["x-forwarded-client-cert"] == (
        'Hash=%DOWNSTREAM_PEER_FINGERPRINT_256%;Cert="%DOWNSTREAM_PEER_CERT%";Subject="%DOWNSTREAM_PEER_SUBJECT%"'
    )


@pytest.mark.parametrize(
    ("asked", "protocols", "wants_client"),
    [
        ({"authorities": ["ca_1"]}, ["h2", "http/1.1"], True),
        ({"id": "edgtls_1", "backend": GROUP}, None, False),
        ({"id": "edgtls_1", "backend": GROUP, "authorities": ["ca_1"]}, None, True),
    ],
)
def test_a_special_edge_requests_certificates_on_demand(
    asked: Mapping[str, Any], protocols: list[str] | None, wants_client: bool
) -> None:
    body = messages.decode(edge_listeners.build_on_demand_listener(planned(**asked), SETTINGS))
    (found,) = body["filter_chains"]
    read = [it["name"].rpartition(".")[2] for it in body["listener_filters"]]
    assert read == ["proxy_protocol", "tls_inspector"]
    is_stream = protocols is None
    assert found["filters"][-1]["name"].endswith("tcp_proxy" if is_stream else "http_connection_manager")
    context = found["transport_socket"]["typed_config"]
    common = context["common_tls_context"]
    assert "custom_tls_certificate_selector" in common
    assert (common.get("alpn_protocols"), "require_client_certificate" in context) == (protocols, wants_client)


def test_tls_that_ends_upstream_is_not_ended_here() -> None:
    body = messages.decode(edge_listeners.build_upstream_listener(planned(place="upstream"), SETTINGS))
    (found,) = body["filter_chains"]
    assert [it["name"].rpartition(".")[2] for it in body["listener_filters"]] == ["proxy_protocol", "tls_inspector"]
    assert ("transport_socket" in found, found["filters"][-1]["name"].rpartition(".")[2]) == (False, "tcp_proxy")


def test_a_port_of_an_edge_passes_bytes_on() -> None:
    plan = planned(id="edgtcp_1", hosts=["tunnels.localhost:20001"], backend=GROUP)
    body = messages.decode(edge_listeners.build_edge_port_listener(plan, "20001", SETTINGS))
    *first, proxy = body["filter_chains"][0]["filters"]
    assert [it["name"] for it in first] == ["envoy.filters.network.connection_limit", "blocked/bytes"]
    assert proxy["typed_config"]["cluster"] == "stream/edgtcp_1"


def hosts_of(plan: Plan) -> Sequence[v3.VirtualHost]:
    config = v3.RouteConfiguration()
    edge_routes.add_edge_hosts(config, plan)
    return config.virtual_hosts


def domains_of(plan: Plan) -> list[Any]:
    return [list(host.domains) for host in hosts_of(plan)]


def test_hosts_that_are_not_live_are_in_no_route() -> None:
    assert domains_of(planned(hosts=[HOST, "shop.example.com"])) == [[HOST]]
    assert domains_of(planned(hosts=["shop.example.com"])) == []


def test_an_edges_connections_are_bounded() -> None:
    bound = chain(planned(authorities=["ca_1"]))["filters"][0]["typed_config"]
    assert (bound["max_connections"], bound["stat_prefix"]) == (str(SETTINGS.limits.max_connections_per_edge), "edge")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"version": "1.3"}),
        ({}, {"authorities": ["ca_1"]}),
        ({"authorities": ["ca_1"]}, {"authorities": ["ca_1", "ca_2"]}),
    ],
)
def test_each_requirement_on_handshakes_has_its_own_digest(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    assert planned(**first).digest != planned(**second).digest
    assert planned(**first).digest == planned(**first).digest


def test_a_groups_tunnels_share_an_address_and_differ_by_their_name() -> None:
    members = [(tunnel("tn_1"), GATEWAY), (tunnel("tn_2"), GATEWAY)]
    http1, http2 = clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)
    body = messages.decode(http1)
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
    body = messages.decode(clusters.build_group_clusters(GROUP, members, "PEM", SETTINGS)[0])
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
    bodies = [messages.decode(it) for it in of_group(GROUP, [(tunnel("tn_1"), GATEWAY)], "PEM", SETTINGS)]
    assert {it["name"].removeprefix(f"group/{GROUP}"): who_hears(it) for it in bodies} == heard_by
    options = [next(iter(it["typed_extension_protocol_options"].values())) for it in bodies]
    assert [it["common_http_protocol_options"]["idle_timeout"] for it in options] == kept


@pytest.mark.parametrize(("is_proxied", "heard_by"), [(False, "the gateway"), (True, "all")])
def test_the_groups_of_a_stream_share_by_weight_and_hear_of_visitors(is_proxied: bool, heard_by: str) -> None:
    plan = replace(planned(id="edgtls_1", backend=GROUP), is_proxied=is_proxied)
    groups = [(GROUP, 3, [(tunnel("tn_1"), GATEWAY)]), ("bkdtg_2", 1, [])]
    body = messages.decode(clusters.build_stream_cluster(plan, groups, "PEM", SETTINGS))
    shares = body["load_assignment"]["endpoints"]
    by_group = [(it["locality"]["sub_zone"], it["load_balancing_weight"], it.get("lb_endpoints", [])) for it in shares]
    assert [(id, weight, len(it)) for id, weight, it in by_group] == [(GROUP, 3, 1), ("bkdtg_2", 1, 0)]
    assert (body["common_lb_config"], who_hears(body)) == ({"locality_weighted_lb_config": {}}, heard_by)


def test_a_group_without_tunnels_believes_no_gateway() -> None:
    body = messages.decode(clusters.build_group_clusters(GROUP, [], "PEM", SETTINGS)[0])
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
    body = messages.decode(answers.build_response_listener("bkdhr_1", response, SETTINGS))
    config = body["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
    assert config["virtual_hosts"][0]["routes"][0]["direct_response"] == answer
    said = [it["header"] for it in config.get("response_headers_to_add", [])]
    assert {it["key"]: it.get("value", "") for it in said} == headers


def test_grpc_goes_to_a_group_by_http2() -> None:
    host = messages.to_json(hosts_of(planned())[0])
    _, first, second, *_ = host["routes"]
    assert (first["match"]["grpc"], first["route"]["cluster"]) == ({}, f"group/{GROUP}/http2")
    assert (second["route"]["cluster"], second["route"]["timeout"]) == (f"group/{GROUP}", "0s")
    assert host["domains"] == [HOST]


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
    plan = plan_of(EDGE, GATEWAY, tunnel(), group(), edge(*routes))
    host = messages.to_json(hosts_of(plan)[0])
    challenges, first, *_ = host["routes"]
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
