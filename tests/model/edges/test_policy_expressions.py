"""Expressions outside of the grammar of traffic policies, and the sentences about them."""

import json

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
