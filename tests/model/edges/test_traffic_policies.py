"""What no traffic policy may contain, and the sentences that say so with rule and place."""

import json
from typing import Any

import pytest

from chalicelib.model.edges.traffic_policies import describe_unsupported

DENY = {"type": "deny"}
ACTIONS: list[tuple[Any, str]] = [
    (1, ": must be an object."),
    ({}, ".type: must be a string."),
    ({"type": "log"}, ": log is not supported by this version."),
    ({"type": "rate-limit", "config": {}}, ": rate-limit is not supported by this version."),
    ({"type": "de ny\n"}, ': "de ny\\n" is not supported by this version.'),
    ({"type": "deny", "config": {"a": 1}}, ".config: must be empty, since deny has no settings."),
    ({"type": "deny", "config": []}, ".config: must be empty, since deny has no settings."),
    ({"type": "deny", "confg": {}}, ": confg is not supported by this version."),
    ({"type": "restrict-ips"}, ".config: must be an object with the array allow."),
    ({"type": "restrict-ips", "config": None}, ".config: must be an object with the array allow."),
    ({"type": "restrict-ips", "config": {}}, ".config.allow: must be an array of at least one address or network."),
    (
        {"type": "restrict-ips", "config": {"deny": ["10.0.0.1"]}},
        ".config.allow: must be an array of at least one address or network.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": []}},
        ".config.allow: must be an array of at least one address or network.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["x"]}},
        '.config.allow[0]: "x" is not an IP address or network with host bits zero.',
    ),
    (
        {"type": "restrict-ips", "config": {"allow": "10.0.0.1"}},
        ".config.allow: must be an array of at least one address or network.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": [1]}},
        ".config.allow: must be an array of at least one address or network.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "deny": None}},
        ".config.deny: must be an array of addresses and networks.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "deny": ["10.0.0.1/8"]}},
        '.config.deny[0]: "10.0.0.1/8" is not an IP address or network with host bits zero.',
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "enforce": "False"}},
        ".config.enforce: must be true or false.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "enforce": None}},
        ".config.enforce: must be true or false.",
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "enforce": False, "deny": ["x"]}},
        '.config.deny[0]: "x" is not an IP address or network with host bits zero.',
    ),
    (
        {"type": "restrict-ips", "config": {"allow": ["10.0.0.1"], "more": 1}},
        ".config: more is not supported by this version.",
    ),
]


@pytest.mark.parametrize(("action", "problem"), ACTIONS)
def test_an_action_outside_of_the_grammar_is_named(action: Any, problem: str) -> None:
    rules = [{"actions": [DENY]}, {"expressions": ["false"], "actions": [DENY, action]}]
    assert describe_unsupported(json.dumps({"inbound": rules})) == f"inbound[1].actions[1]{problem}"


DOCUMENTS = [
    ("", "value: must be a JSON document."),
    ("[]", "value: must be a JSON object."),
    ("null", "value: must be a JSON object."),
    ('{"inbound":[],"inbound":[]}', "value: must not have the key inbound twice in one object."),
    ('{"a":1}', "value: a is not supported by this version."),
    ('{"":1}', 'value: "" is not supported by this version.'),
    (
        '{"outbound": [{"actions": [{"type": "deny"}]}]}',
        "outbound: rules of outbound traffic are not supported by this version.",
    ),
    ('{"outbound": null}', "outbound: rules of outbound traffic are not supported by this version."),
    ('{"inbound": null}', "inbound: must be an array."),
    ('{"inbound":[1]}', "inbound[0]: must be an object."),
    ('{"inbound":[{}]}', "inbound[0].actions: must be an array of at least one action."),
    ('{"inbound":[{"actions":[]}]}', "inbound[0].actions: must be an array of at least one action."),
    ('{"inbound":[{"name":1,"actions":[{"type":"deny"}]}]}', "inbound[0].name: must be a string."),
    (
        '{"inbound":[{"expressions":null,"actions":[{"type":"deny"}]}]}',
        "inbound[0].expressions: must be an array of strings.",
    ),
    (
        '{"inbound":[{"expressions":[1],"actions":[{"type":"deny"}]}]}',
        "inbound[0].expressions: must be an array of strings.",
    ),
    ('{"inbound":[{"x":1,"actions":[{"type":"deny"}]}]}', "inbound[0]: x is not supported by this version."),
    ('{"inbound":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[', "value: must be at most 32 levels deep."),
]


@pytest.mark.parametrize(("document", "problem"), DOCUMENTS)
def test_a_document_outside_of_the_grammar_is_named(document: str, problem: str) -> None:
    assert describe_unsupported(document) == problem


def with_expression(*texts: str) -> str:
    return json.dumps({"inbound": [{"expressions": texts, "actions": [DENY]}]})


def with_networks(allow: int, deny: int, list_length: int, leading: int) -> str:
    """Return a policy with so many networks of each form, and with regions, which do not count."""
    config = {"allow": ["10.0.0.1"] * allow, "deny": ["10.0.0.0/8"] * deny}
    expressions = [
        f"conn.server_region in {['eu'] * 2001} && conn.client_ip in {['10.0.0.1'] * list_length}",
        f"inCidrRanges(conn.client_ip, {['10.0.0.0/8'] * list_length})",
        *(f"conn.server_region == 'eu' && '10.0.0.{number}' == conn.client_ip" for number in range(leading)),
    ]
    actions = [{"type": "restrict-ips", "config": config}]
    return json.dumps({"inbound": [{"expressions": expressions, "actions": actions}]})


TOO_MANY = "inbound: must have at most 2000 addresses and networks."
TOO_DEEP = "inbound[0].expressions[0]: must be at most 32 levels deep."
BOUNDS = [
    (json.dumps({"inbound": [{"actions": [DENY]}] * 1000}), ""),
    (json.dumps({"inbound": [{"actions": [DENY]}] * 1001}), "inbound: must have at most 1000 rules."),
    (with_networks(500, 500, 400, 200), ""),
    (with_networks(501, 500, 400, 200), TOO_MANY),
    (with_networks(500, 501, 400, 200), TOO_MANY),
    (with_networks(500, 500, 401, 200), TOO_MANY),
    (with_networks(500, 500, 400, 201), TOO_MANY),
    (with_expression("||".join(["true"] * 501)), ""),
    (with_expression("||".join(["true"] * 502)), "inbound[0].expressions[0]: must have at most 500 operators."),
    (with_expression(*["&&".join(["true"] * 501)] * 10), ""),
    (with_expression("(" * 100_000), TOO_DEEP),
    ("[" * 100_000, "value: must be at most 32 levels deep."),
    ('{"inbound": "' + '\\"' * 60_000, "value: must be a JSON document."),
]


@pytest.mark.parametrize(("document", "problem"), BOUNDS)
def test_bounds_are_checked_before_anything_is_parsed(document: str, problem: str) -> None:
    assert describe_unsupported(document) == problem
