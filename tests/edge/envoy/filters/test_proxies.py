"""Connections that only trusted proxies may open."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from edge.envoy.filters import proxies
from edge.envoy.names import https_listener
from edge.envoy.resources import Resource
from edge.process.settings import Settings
from tests.edge.envoy import messages
from tests.edge.envoy.values import BELIEVING, RANGES, SETTINGS


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


def test_where_proxies_are_believed_a_chain_takes_their_connections_alone() -> None:
    ranges = [{"address_prefix": "192.0.2.0", "prefix_len": 24}]
    believing = replace(Settings(), proxy_protocol_from=("192.0.2.0/24",))
    match = proxies.build_match(believing)
    assert match
    assert messages.to_json(match) == {"direct_source_prefix_ranges": ranges}
    assert proxies.build_match(Settings()) is None
