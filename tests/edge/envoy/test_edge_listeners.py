"""The listeners of edges. tests/live/edge/test_https_edges.py tries them with Envoy."""

from collections.abc import Mapping
from typing import Any

import pytest

from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import edge_listeners
from tests.edge.envoy import messages
from tests.edge.envoy.edge_values import SETTINGS, planned
from tests.edge.plan.worlds import GROUP


def chain(plan: Plan) -> Any:
    body = messages.decode(edge_listeners.build_on_demand_listener(plan, SETTINGS))
    (filter_chain,) = body["filter_chains"]
    return filter_chain


def headers_said(plan: Plan) -> dict[str, str]:
    """Return the headers that are set, behind the removal of what a client claims."""
    filters = {
        http_filter["name"]: http_filter for http_filter in chain(plan)["filters"][1]["typed_config"]["http_filters"]
    }
    mutations = filters["envoy.filters.http.header_mutation"]["typed_config"]["mutations"]
    removal, *additions = mutations["request_mutations"]
    assert "remove_on_match" in removal
    return {option["append"]["header"]["key"]: option["append"]["header"]["value"] for option in additions}


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
    ("options", "protocols", "wants_client"),
    [
        ({"authorities": ["ca_1"]}, ["h2", "http/1.1"], True),
        ({"id": "edgtls_1", "backend": GROUP}, None, False),
        ({"id": "edgtls_1", "backend": GROUP, "authorities": ["ca_1"]}, None, True),
    ],
)
def test_a_special_edge_requests_certificates_on_demand(
    options: Mapping[str, Any], protocols: list[str] | None, wants_client: bool
) -> None:
    body = messages.decode(edge_listeners.build_on_demand_listener(planned(**options), SETTINGS))
    (filter_chain,) = body["filter_chains"]
    read = [listener_filter["name"].rpartition(".")[2] for listener_filter in body["listener_filters"]]
    assert read == ["proxy_protocol", "tls_inspector"]
    is_stream = protocols is None
    assert filter_chain["filters"][-1]["name"].endswith("tcp_proxy" if is_stream else "http_connection_manager")
    context = filter_chain["transport_socket"]["typed_config"]
    common = context["common_tls_context"]
    assert "custom_tls_certificate_selector" in common
    assert (common.get("alpn_protocols"), "require_client_certificate" in context) == (protocols, wants_client)


def test_tls_that_ends_upstream_is_not_ended_here() -> None:
    body = messages.decode(edge_listeners.build_upstream_listener(planned(terminate_at="upstream"), SETTINGS))
    (filter_chain,) = body["filter_chains"]
    assert [listener_filter["name"].rpartition(".")[2] for listener_filter in body["listener_filters"]] == [
        "proxy_protocol",
        "tls_inspector",
    ]
    assert ("transport_socket" in filter_chain, filter_chain["filters"][-1]["name"].rpartition(".")[2]) == (
        False,
        "tcp_proxy",
    )


def test_a_port_of_an_edge_passes_bytes_on() -> None:
    plan = planned(id="edgtcp_1", hosts=["tunnels.localhost:20001"], backend=GROUP)
    body = messages.decode(edge_listeners.build_edge_port_listener(plan, "20001", SETTINGS))
    *first, proxy = body["filter_chains"][0]["filters"]
    assert [network_filter["name"] for network_filter in first] == [
        "envoy.filters.network.connection_limit",
        "blocked/bytes",
    ]
    assert proxy["typed_config"]["cluster"] == "stream/edgtcp_1"


def test_an_edges_connections_are_bounded() -> None:
    limit = chain(planned(authorities=["ca_1"]))["filters"][0]["typed_config"]
    assert (limit["max_connections"], limit["stat_prefix"]) == (str(SETTINGS.limits.max_connections_per_edge), "edge")


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
