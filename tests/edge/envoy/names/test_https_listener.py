"""The public HTTPS listener: how it chooses a filter chain, and the TLS of each chain."""

from typing import Any

import pytest

from edge.envoy.names import https_listener
from edge.envoy.resources import Key
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS, SOCKETS, TYPE


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
    redirecting, front, *_ = https_listener.build_public(SETTINGS)
    assert (redirecting.key, front.key) == (Key("listener", "http"), Key("listener", "https"))
    body = messages.decode(front)
    on_no_match = body["filter_chain_matcher"].pop("on_no_match")
    assert body["filter_chain_matcher"] == matcher("", "passed-on")["filter_chain_matcher"]
    (by_wildcard,) = on_no_match["matcher"]["matcher_list"]["matchers"]
    assert by_wildcard["predicate"]["single_predicate"]["value_match"]["safe_regex"]["regex"] == " "
    normal = on_no_match["matcher"]["on_no_match"]["matcher"]
    (challenge,) = normal["matcher_list"]["matchers"]
    predicate = challenge["predicate"]["single_predicate"]
    assert predicate["input"]["typed_config"]["@type"].endswith(".ApplicationProtocolInput")
    assert predicate["value_match"]["safe_regex"]["regex"] == ".*'acme-tls/1'.*"
    assert (challenge["on_match"], normal["on_no_match"]) == (chain("refused"), chain("1.2"))
    assert [filter_chain["name"] for filter_chain in body["filter_chains"]] == ["passed-on", "1.0", "1.1", "1.2", "1.3"]
    assert body["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 8443}}
    deferred = {"level": "6", "name": "9", "int_value": "15", "state": "STATE_LISTENING"}
    assert body["socket_options"] == [*SOCKETS, deferred]
    (manager,) = (
        network_filter["typed_config"] for network_filter in messages.decode(redirecting)["filter_chains"][0]["filters"]
    )
    assert manager["rds"]["route_config_name"] == "http"
    assert manager["common_http_protocol_options"] == {"idle_timeout": "15s"}


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


@pytest.mark.parametrize(
    ("version", "oldest", "has_old_ciphers"),
    [("1.0", "TLSv1_0", True), ("1.1", "TLSv1_1", True), ("1.2", "TLSv1_2", False), ("1.3", "TLSv1_3", False)],
)
def test_each_version_of_tls_has_a_chain(version: str, oldest: str, has_old_ciphers: bool) -> None:
    chains = messages.decode(https_listener.build_https_listener(SETTINGS))["filter_chains"]
    (chain,) = (candidate for candidate in chains if candidate["name"] == version)
    context = chain["transport_socket"]["typed_config"]
    params = context["common_tls_context"]["tls_params"]
    assert params["tls_minimum_protocol_version"] == oldest
    assert ("ECDHE-RSA-AES128-SHA" in params.get("cipher_suites", [])) is has_old_ciphers
    assert context["common_tls_context"]["alpn_protocols"] == ["h2", "http/1.1"]
    assert "require_client_certificate" not in context
    assert context["disable_stateless_session_resumption"] is context["disable_stateful_session_resumption"] is True
    assert chain["filters"][0]["typed_config"]["max_connections"] == str(SETTINGS.limits.max_connections)
