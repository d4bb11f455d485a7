"""The matcher of a port with a traffic policy, in the listener that Envoy receives."""

import json
import time
from ipaddress import ip_network
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from edge.envoy import listeners
from edge.envoy.ads.catalog import Catalog, Name
from edge.envoy.filters import policy_matchers
from edge.envoy.filters.blocking import BlockedListeners
from edge.envoy.resources import MESSAGES, Resource
from edge.process.settings import Settings
from tests.edge.envoy import messages

DENY = {"type": "deny"}
NAME = Name("listener", "port/20000")
TO_BYTES, TO_NONE = "bytes", "refused"
# IPv4 in IPv6, which is written in another form since Python 3.13
MAPPED_ONE, MAPPED_ALL = (str(ip_network(network)) for network in ("::ffff:a00:7/128", "::ffff:a00:0/104"))


def policy(*expressions: str) -> str:
    return json.dumps({"inbound": [{"expressions": expressions, "actions": [DENY]}]})


def port_listener(document: str, **settings: Any) -> Resource:
    all_settings, refusals = Settings(**settings), (policy_matchers.parse_document(document),)
    matcher = policy_matchers.build_matcher(refusals, 20000, all_settings.region)
    return listeners.build_port_listener("20000", [], all_settings, matcher=matcher)


def merge_blocked(resource: Resource, *blocked: str) -> Any:
    """Return the matcher of a listener with its blocked part, as Envoy decodes it."""
    guarded = BlockedListeners()
    guarded.block(blocked)
    catalog = Catalog(b"key")
    catalog.apply(guarded.guard({resource.key: resource}))
    return MessageToDict(MESSAGES["listener"].FromString(catalog.value(NAME)))["filterChainMatcher"]


def describe(matcher: Any) -> list[Any]:
    """Return the input, the networks and the chain of each match in a matcher, and what follows without a match."""
    lines: list[Any] = [
        (*_predicate(entry["predicate"]), _chain(entry["onMatch"]))
        for entry in matcher.get("matcherList", {}).get("matchers", [])
    ]
    last = matcher["onNoMatch"]
    return [*lines, describe(last["matcher"]) if "matcher" in last else _chain(last)]


def _predicate(predicate: Any) -> tuple[str, list[str]]:
    word = "not " if "notMatcher" in predicate else ""
    single = predicate.get("notMatcher", predicate)["singlePredicate"]
    ranges = single["customMatch"]["typedConfig"]["cidrRanges"]
    networks = [f"{network['addressPrefix']}/{network.get('prefixLen', 0)}" for network in ranges]
    return word + single["input"]["typedConfig"]["@type"].rpartition(".")[2], networks


def _chain(on_match: Any) -> str:
    return str(on_match["action"]["typedConfig"]["value"])


POLICY = policy("inCidrRange(conn.client_ip, '10.0.0.0/8') && conn.client_ip != '10.0.0.7'")
MATCHES = [
    ("SourceIPInput", ["10.0.0.7/32", MAPPED_ONE], TO_BYTES),
    ("SourceIPInput", ["10.0.0.0/8", MAPPED_ALL], TO_NONE),
    ("SourceIPInput", ["0.0.0.0/0", "::/0"], TO_BYTES),
    TO_NONE,
]


def test_smaller_networks_come_first_and_no_match_is_closed() -> None:
    assert describe(merge_blocked(port_listener(POLICY))) == [MATCHES]


def test_blocked_networks_and_other_hosts_than_the_proxies_come_before_the_policy() -> None:
    blocked = ("SourceIPInput", ["10.0.0.7/32"], TO_NONE)
    assert describe(merge_blocked(port_listener(POLICY), "10.0.0.7/32")) == [blocked, MATCHES]
    not_proxied = ("not DirectSourceIPInput", ["192.0.2.0/24"], TO_NONE)
    proxied = port_listener(POLICY, proxy_protocol_from=("192.0.2.0/24",))
    assert describe(merge_blocked(proxied, "10.0.0.7/32")) == [not_proxied, blocked, [MATCHES]]


@pytest.mark.parametrize(
    ("expression", "chain"),
    [
        ("conn.server_port == 20000", TO_NONE),
        ("conn.server_port != 20000", TO_BYTES),
        ("conn.server_region == 'local'", TO_NONE),
        ("conn.server_region == 'eu-central-1'", TO_BYTES),
    ],
)
def test_port_and_region_are_constants_of_the_listener(expression: str, chain: str) -> None:
    everyone = ("SourceIPInput", ["0.0.0.0/0", "::/0"], chain)
    assert describe(merge_blocked(port_listener(policy(expression)))) == [[everyone, TO_NONE]]


def test_only_the_matcher_differs_between_policies() -> None:
    listener, other = (messages.decode(port_listener(document)) for document in (POLICY, policy("true")))
    assert {name for name in listener if listener[name] != other[name]} == {"filter_chain_matcher"}


def test_the_largest_policy_is_built_and_encoded_in_less_than_two_seconds() -> None:
    networks = [f"10.{number >> 8}.{number & 255}.0/24" for number in range(0, 4000, 2)]
    start = time.process_time()
    matcher = merge_blocked(port_listener(policy(f"inCidrRanges(conn.client_ip, {networks})")))
    assert time.process_time() - start < 2
    ((_, matched_networks, _), _, _) = describe(matcher)[0]
    assert len(matched_networks) == 4000
