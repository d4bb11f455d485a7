"""What no traffic policy may contain, and the sentences that say so with rule and place."""

import json
from typing import Any

import pytest

from chalicelib.model.edges.traffic_policies import describe_unsupported

DENY = {"type": "deny"}
EXPRESSIONS = [
    ("conn.geo == 'x'", "conn.geo is not supported by this version."),
    ("conn.client_ip", "expected ==, != or in at character 14, not the end."),
    ("conn.client_ip < '1.2.3.4'", "expected ==, != or in at character 15, not <."),
    ("conn.client_ip == 5", "expected a string at character 18, not 5."),
    ("conn.client_ip == 'here'", '"here" is not an IP address.'),
    ("true || conn.client_ip == 'here'", '"here" is not an IP address.'),
    ("conn.client_ip == '10.0.0.0/8'", '"10.0.0.0/8" is not an IP address.'),
    ("conn.client_ip in '10.0.0.1'", "expected [ at character 18, not '10.0.0.1'."),
    ("conn.client_ip in ['10.0.0.1',]", "expected a string at character 30, not ]."),
    ("conn.client_ip in [1]", "expected a string at character 19, not 1."),
    ("conn.client_ip in ['10.0.0.1'", "expected , or ] at character 29, not the end."),
    ("conn.client_ip == conn.client_ip", "expected a string at character 18, not conn.client_ip."),
    ("'a' == 'a'", '"a" is not an IP address.'),
    ("'10.0.0.1' in ['10.0.0.1']", "expected == or != at character 11, not in."),
    ("'10.0.0.1' < conn.client_ip", "expected == or != at character 11, not <."),
    ("!conn.client_ip == '1.2.3.4'", "expected a condition at character 1, not conn.client_ip."),
    ("inCidrRange(conn.client_ip, '10.0.0.1/8')", '"10.0.0.1/8" is not an IP address or network with host bits zero.'),
    ("inCidrRange('10.0.0.1', '10.0.0.1/8')", "expected conn.client_ip at character 12, not '10.0.0.1'."),
    ("inCidrRange(conn.client_ip)", "expected , at character 26, not )."),
    ("inCidrRange(conn.client_ip, ['10.0.0.0/8'])", "expected a string at character 28, not [."),
    ("inCidrRanges(conn.client_ip, '10.0.0.0/8')", "expected [ at character 29, not '10.0.0.0/8'."),
    ("inCidrRange", "expected ( at character 11, not the end."),
    ("conn.client_ip.inCidrRange('10.0.0.0/8')", "conn.client_ip.inCidrRange is not supported by this version."),
    ("conn.client_ip.startsWith('10.')", "conn.client_ip.startsWith is not supported by this version."),
    ("conn.server_port == '22'", "expected an integer at character 20, not '22'."),
    ("conn.server_port == 1.5", '"1.5" at character 20 is not supported by this version.'),
    ("conn.server_port == 22u", '"22u" at character 20 is not supported by this version.'),
    ("conn.server_port in 22", "expected [ at character 20, not 22."),
    ("22 == conn.server_port", "expected a condition at character 0, not 22."),
    ("conn.server_port == 9223372036854775808", "9223372036854775808 is not an integer of 64 bits."),
    ("conn.server_port == 0x", '"0x" at character 20 is not supported by this version.'),
    ("conn.server_region == 1", "expected a string at character 22, not 1."),
    ("conn.server_region < 'a'", "expected ==, != or in at character 19, not <."),
    ("'local' == conn.server_region", '"local" is not an IP address.'),
    ("conn.client_port == 1", "conn.client_port is not supported by this version."),
    ("client_ip == '1.2.3.4'", "client_ip is not supported by this version."),
    ("conn", "conn is not supported by this version."),
    ("", "expected a condition at character 0, not the end."),
    ("  // nothing", "expected a condition at character 12, not the end."),
    ("true ? true : false", '"?" at character 5 is not supported by this version.'),
    ("true ||", "expected a condition at character 7, not the end."),
    ("|| true", "expected a condition at character 0, not ||."),
    ("true true", "expected ||, && or the end at character 5, not true."),
    ("(true", "expected ) at character 5, not the end."),
    ("true)", "expected ||, && or the end at character 4, not )."),
    ("()", "expected a condition at character 1, not )."),
    ("true == true", "expected ||, && or the end at character 5, not ==."),
    ("!", "expected a condition at character 1, not the end."),
    ("true && !", "expected a condition at character 9, not the end."),
    ("true | true", '"|" at character 5 is not supported by this version.'),
    ("[true][0]", "expected a condition at character 0, not [."),
    ("size('a') == 1", "size is not supported by this version."),
    ("has(conn.x)", "has is not supported by this version."),
    ("[1,2].exists(x, x == 1)", '".exists(x," at character 5 is not supported by this version.'),
    ("null", "null is not supported by this version."),
    ("1", "expected a condition at character 0, not 1."),
    ("'a'", '"a" is not an IP address.'),
    ('conn.client_ip == "10.0.0.1', '"\\"10.0.0.1" at character 18 is not supported by this version.'),
    (r"conn.server_region == '\q'", '"\\\\q" is not an escape sequence.'),
    (r"conn.server_region == '\ud800'", '"\\\\ud800" is not an escape sequence.'),
    (r"conn.server_region == '\400'", '"\\\\4" is not an escape sequence.'),
    ("conn.server_region == '''a'''", "expected ||, && or the end at character 24, not 'a'."),
    ("conn.server_region == r'a'", "r is not supported by this version."),
    ("conn.server_region == 'a\nb'", '"\'a" at character 22 is not supported by this version.'),
    ("conn.client_ip == 'fe80::1%eth0'", '"fe80::1%eth0" has a zone, which is not supported by this version.'),
    ("inCidrRange(conn.client_ip, 'fe80::%1/64')", '"fe80::%1/64" has a zone, which is not supported by this version.'),
    ("conn.client_ip == '010.0.0.1'", '"010.0.0.1" is not an IP address.'),
    ("true ; true", '";" at character 5 is not supported by this version.'),
    ("conn. client_ip == '1.2.3.4'", '"." at character 4 is not supported by this version.'),
    ("é", '"\\u00e9" at character 0 is not supported by this version.'),
    ("conn.client_ip = '1.1.1.1'", '"=" at character 15 is not supported by this version.'),
    ("in in in", "expected a condition at character 0, not in."),
]


@pytest.mark.parametrize(("expression", "problem"), EXPRESSIONS)
def test_an_expression_outside_of_the_grammar_is_named(expression: str, problem: str) -> None:
    rules = [{"actions": [DENY]}, {"expressions": ["true", expression], "actions": [DENY]}]
    assert describe_unsupported(json.dumps({"inbound": rules})) == f"inbound[1].expressions[1]: {problem}"


ACTIONS: list[tuple[Any, str]] = [
    (1, ": must be an object."),
    ({}, ".type: must be a string."),
    ({"type": "log"}, ": log is not supported by this version."),
    ({"type": "rate-limit", "config": {}}, ": rate-limit is not supported by this version."),
    ({"type": "de ny\n"}, ': "de ny\\n" is not supported by this version.'),
    ({"type": "deny", "config": {"a": 1}}, ".config: must be empty, since deny has no settings."),
    ({"type": "deny", "config": []}, ".config: must be empty, since deny has no settings."),
    ({"type": "deny", "confg": {}}, ": confg is not supported by this version."),
    ({"type": "restrict-ips"}, ".config: must be an object with allow."),
    ({"type": "restrict-ips", "config": None}, ".config: must be an object with allow."),
    ({"type": "restrict-ips", "config": {}}, ".config.allow: must be an array with an address or network."),
    (
        {"type": "restrict-ips", "config": {"deny": ["10.0.0.1"]}},
        ".config.allow: must be an array with an address or network.",
    ),
    ({"type": "restrict-ips", "config": {"allow": []}}, ".config.allow: must be an array with an address or network."),
    (
        {"type": "restrict-ips", "config": {"allow": ["x"]}},
        '.config.allow[0]: "x" is not an IP address or network with host bits zero.',
    ),
    (
        {"type": "restrict-ips", "config": {"allow": "10.0.0.1"}},
        ".config.allow: must be an array with an address or network.",
    ),
    ({"type": "restrict-ips", "config": {"allow": [1]}}, ".config.allow: must be an array with an address or network."),
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
    ("", "value: is not a JSON document."),
    ("[]", "value: must be a JSON object."),
    ("null", "value: must be a JSON object."),
    ('{"inbound":[],"inbound":[]}', "value: repeats the key inbound in one object."),
    ('{"a":1}', "value: a is not supported by this version."),
    ('{"":1}', 'value: "" is not supported by this version.'),
    (
        '{"outbound": [{"actions": [{"type": "deny"}]}]}',
        "outbound: rules of outbound traffic are not supported by this version.",
    ),
    ('{"outbound": null}', "outbound: rules of outbound traffic are not supported by this version."),
    ('{"inbound": null}', "inbound: must be an array."),
    ('{"inbound":[1]}', "inbound[0]: must be an object."),
    ('{"inbound":[{}]}', "inbound[0].actions: must be an array with an action."),
    ('{"inbound":[{"actions":[]}]}', "inbound[0].actions: must be an array with an action."),
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
    ('{"inbound":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[', "value: is more than 32 levels deep."),
]


@pytest.mark.parametrize(("document", "problem"), DOCUMENTS)
def test_a_document_outside_of_the_grammar_is_named(document: str, problem: str) -> None:
    assert describe_unsupported(document) == problem


def with_expression(*texts: str) -> str:
    return json.dumps({"inbound": [{"expressions": texts, "actions": [DENY]}]})


def with_networks(allow: int, deny: int, listed: int, leading: int) -> str:
    """Return a policy with so many networks of each form, and with regions, which do not count."""
    config = {"allow": ["10.0.0.1"] * allow, "deny": ["10.0.0.0/8"] * deny}
    expressions = [
        f"conn.server_region in {['eu'] * 2001} && conn.client_ip in {['10.0.0.1'] * listed}",
        f"inCidrRanges(conn.client_ip, {['10.0.0.0/8'] * listed})",
        *(f"conn.server_region == 'eu' && '10.0.0.{it}' == conn.client_ip" for it in range(leading)),
    ]
    actions = [{"type": "restrict-ips", "config": config}]
    return json.dumps({"inbound": [{"expressions": expressions, "actions": actions}]})


TOO_MANY = "inbound: has more than 2000 addresses and networks."
TOO_DEEP = "inbound[0].expressions[0]: is more than 32 levels deep."
BOUNDS = [
    (json.dumps({"inbound": [{"actions": [DENY]}] * 1000}), ""),
    (json.dumps({"inbound": [{"actions": [DENY]}] * 1001}), "inbound: has more than 1000 rules."),
    (with_networks(500, 500, 400, 200), ""),
    (with_networks(501, 500, 400, 200), TOO_MANY),
    (with_networks(500, 501, 400, 200), TOO_MANY),
    (with_networks(500, 500, 401, 200), TOO_MANY),
    (with_networks(500, 500, 400, 201), TOO_MANY),
    (with_expression("||".join(["true"] * 501)), ""),
    (with_expression("||".join(["true"] * 502)), "inbound[0].expressions[0]: has more than 500 operators."),
    (with_expression(*["&&".join(["true"] * 501)] * 10), ""),
    (with_expression("!" * 32 + "true"), ""),
    (with_expression("!" * 33 + "true"), TOO_DEEP),
    (with_expression("(" * 32 + "true" + ")" * 32), ""),
    (with_expression("(" * 33 + "true" + ")" * 33), TOO_DEEP),
    (with_expression("!(" * 16 + "true" + ")" * 16 + " || !true"), ""),
    (with_expression("!(" * 17 + "true" + ")" * 17), TOO_DEEP),
    (with_expression("(" * 100_000), TOO_DEEP),
    ("[" * 100_000, "value: is more than 32 levels deep."),
    ('{"inbound": "' + '\\"' * 60_000, "value: is not a JSON document."),
]


@pytest.mark.parametrize(("document", "problem"), BOUNDS)
def test_bounds_are_checked_before_anything_is_parsed(document: str, problem: str) -> None:
    assert describe_unsupported(document) == problem
