"""Matchers of connections, whole."""

from typing import Any

import pytest
import re2

from edge.envoy import matchers
from edge.envoy.matchers import Predicate
from tests.edge.envoy import messages

NETWORK = "type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3"


def action(chain: str) -> Any:
    value = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": chain}
    return {"action": {"name": "chain", "typed_config": value}}


def test_a_chain_is_chosen_by_its_name() -> None:
    assert messages.to_json(matchers.choose("1.3")) == action("1.3")


def test_a_challenge_is_refused_before_the_choice() -> None:
    tree = messages.to_json(matchers.refuse_challenges("1.3"))["matcher"]
    (challenge,) = tree["matcher_list"]["matchers"]
    assert (challenge["on_match"], tree["on_no_match"]) == (action("refused"), action("1.3"))
    single = challenge["predicate"]["single_predicate"]
    assert single["input"]["typed_config"] == {"@type": f"{NETWORK}.ApplicationProtocolInput"}
    regex = single["value_match"]["safe_regex"]["regex"]
    offers = ["'acme-tls/1'", "'h2','acme-tls/1'", "'acme-tls/1','h2'", "'h2','http/1.1'", "'xacme-tls/1'", ""]
    assert [bool(re2.fullmatch(regex, offer)) for offer in offers] == [True, True, True, False, False, False]


def test_server_names_are_matched_exactly_or_by_an_expression() -> None:
    tree = {"name": "server_name", "typed_config": {"@type": f"{NETWORK}.ServerNameInput"}}
    exact = matchers.match_server_name("a.example.com", matchers.choose("1.3"))
    assert messages.to_json(exact) == {
        "matcher_tree": {"input": tree, "exact_match_map": {"map": {"a.example.com": action("1.3")}}}
    }
    assert messages.to_json(matchers.match_server_name("b", matchers.choose("1.2"))) != messages.to_json(exact)
    matcher = messages.to_json(matchers.match_server_names("x.*", matchers.choose("1.2"), matchers.choose("1.3")))
    (entry,) = matcher["matcher_list"]["matchers"]
    assert entry == {
        "predicate": {
            "single_predicate": {"input": tree, "value_match": {"safe_regex": {"google_re2": {}, "regex": "x.*"}}}
        },
        "on_match": action("1.2"),
    }
    assert matcher["on_no_match"] == action("1.3")


NETWORKS = ["192.0.2.0/24", "2001:db8::1"]


@pytest.mark.parametrize(
    ("predicate", "address"),
    [
        (matchers.comes_from(NETWORKS, "blocked"), "SourceIPInput"),
        (matchers.is_sent_by(NETWORKS, "blocked"), "DirectSourceIPInput"),
    ],
)
def test_an_address_is_the_visitors_or_the_connections(predicate: Predicate, address: str) -> None:
    single = messages.to_json(predicate)["single_predicate"]
    assert single["input"]["typed_config"] == {"@type": f"{NETWORK}.{address}"}
    ranges = single["custom_match"]["typed_config"]
    assert (ranges["stat_prefix"], ranges["cidr_ranges"]) == (
        "blocked",
        [{"address_prefix": "192.0.2.0", "prefix_len": 24}, {"address_prefix": "2001:db8::1", "prefix_len": 128}],
    )
