"""The refusal of blocked networks and banned hosts. tests/live/edge/test_blocking.py tries it with Envoy."""

import pytest
import re2

from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import listeners
from edge.envoy.filters import blocking
from edge.envoy.resources import Key
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS


@pytest.mark.parametrize(
    ("networks", "principals"),
    [
        ([], []),
        (["192.0.2.0/24", "2001:db8::/32"], [("192.0.2.0", 24), ("2001:db8::", 32)]),
    ],
)
def test_requests_of_blocked_networks_are_refused(networks: list[str], principals: list[tuple[str, int]]) -> None:
    of_requests, of_bytes = (
        messages.decode(rule)["typed_config"]["rules"] for rule in blocking.build_rules(networks, ())
    )
    policies = of_requests.get("policies", {}).values()
    ranges = [principal["remote_ip"] for policy in policies for principal in policy["principals"]]
    assert of_requests["action"] == "DENY"
    assert [(network["address_prefix"], network["prefix_len"]) for network in ranges] == principals
    assert of_bytes == {"action": "DENY"}


def test_each_listener_of_bytes_refuses_blocked_networks_in_a_part_of_its_own() -> None:
    tunnel = ServedTunnel("acct_a", "tn_1", "gw-1", "tunnels.localhost:20001", proto="tcp")
    port, http = (
        listeners.build_tunnel_port_listener(tunnel, "20001", SETTINGS),
        listeners.build_http_listener(SETTINGS),
    )
    blocked_listeners, part = blocking.BlockedListeners(), Key("listener", port.key.name, "blocked")
    assert blocked_listeners.guard({port.key: port, http.key: http}) == {port.key: port, http.key: http}
    (refusing,) = blocked_listeners.block(["192.0.2.0/24", "2001:db8::/32"]).values()
    assert refusing
    (matcher,) = messages.decode(refusing)["filter_chain_matcher"]["matcher_list"]["matchers"]
    single = matcher["predicate"]["single_predicate"]
    assert single["input"]["typed_config"]["@type"].endswith(".SourceIPInput")
    assert single["custom_match"]["typed_config"]["cidr_ranges"] == [
        {"address_prefix": "192.0.2.0", "prefix_len": 24},
        {"address_prefix": "2001:db8::", "prefix_len": 32},
    ]
    assert matcher["on_match"]["action"]["typed_config"]["value"] == "refused"
    assert blocked_listeners.guard({port.key: port}) == {port.key: port, part: refusing}
    assert blocked_listeners.block([]) == {part: None}
    blocked_listeners.block(["192.0.2.0/24"])
    assert blocked_listeners.guard({port.key: None}) == {port.key: None, part: None}
    assert blocked_listeners.block([]) == {}


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
    banned_hosts = [f"{number:03}{'sk' * 100}.example" for number in range(40)]  # with nothing in common that RE2 joins
    for rule in blocking.build_rules([], [*banned_hosts[:20], banned, *banned_hosts[20:]]):
        rules = messages.decode(rule)["typed_config"]["rules"]
        (policy,) = rules["policies"].values()
        matchers = [
            permission["requested_server_name"] if "header" not in permission else permission["header"]
            for permission in policy["permissions"]
        ]
        regexes = [matcher.get("string_match", matcher)["safe_regex"]["regex"] for matcher in matchers]
        assert (rules["action"], policy["principals"]) == ("DENY", [{"any": True}])
        assert any(re2.fullmatch(regex, host) for regex in regexes) == is_refused
        assert max(re2.compile(regex).programsize for regex in regexes) < 10_000
