"""Which clients a traffic policy admits: every form of its grammar, precedence, strings and comments."""

import json
import time
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given

from chalicelib.model.edges import traffic_policies as documents
from edge.plan import traffic_policies
from edge.plan.traffic_policies import Verdict
from tests.edge import drawn_policies
from tests.edge.drawn_policies import LOOPBACK, OTHER_ADDRESSES, PORT, REGION, DrawnPolicy

DENY: dict[str, Any] = {"type": "deny"}
CLIENTS = ["10.0.0.1", "10.0.0.2", "10.1.0.1", "2001:db8::1"]
NONE: list[str] = []
# IPv4 in IPv6, which is written in another form since Python 3.13
MAPPED_ONE, MAPPED_ALL = (str(ip_network(network)) for network in ("::ffff:a00:7/128", "::ffff:a00:0/104"))


def admits(verdicts: Sequence[Verdict], client: str) -> bool:
    address = ip_address(client)
    return next(verdict.is_admitted for verdict in verdicts if any(address in network for network in verdict.networks))


def list_rejected(document: Any) -> list[str]:
    """Return the clients that a policy rejects at port 20000 in the region `local`."""
    verdicts = traffic_policies.decide(documents.parse(json.dumps(document)), PORT, REGION)
    return [client for client in CLIENTS if not admits(verdicts, client)]


FIRST, SECOND, THIRD, SIXTH = ([client] for client in CLIENTS)
FOURS = CLIENTS[:3]
EXPRESSIONS: list[tuple[str, list[str]]] = [
    ("true", CLIENTS),
    ("false", NONE),
    # Addresses
    ("conn.client_ip == '10.0.0.1'", FIRST),
    ('"10.0.0.1" == conn.client_ip', FIRST),
    ("conn.client_ip != '10.0.0.1'", CLIENTS[1:]),
    ("'10.0.0.1' != conn.client_ip", CLIENTS[1:]),
    ("conn.client_ip in ['10.0.0.1', '10.1.0.1']", FIRST + THIRD),
    ("conn.client_ip in []", NONE),
    ("conn.client_ip == '2001:0DB8:0::0001'", SIXTH),
    ("conn.client_ip == '::ffff:10.0.0.1'", FIRST),
    ("conn.client_ip == '::ffff:a00:2'", SECOND),
    # Networks
    ("inCidrRange(conn.client_ip, '10.0.0.0/24')", FIRST + SECOND),
    ("inCidrRange(conn.client_ip, '10.0.0.2')", SECOND),
    ("inCidrRange(conn.client_ip, '10.0.0.0/255.255.0.0')", FIRST + SECOND),
    ("inCidrRange(conn.client_ip, '0.0.0.0/0')", FOURS),
    ("inCidrRange(conn.client_ip, '::/0')", SIXTH),
    ("inCidrRange(conn.client_ip, '2001:db8::/32')", SIXTH),
    ("inCidrRange(conn.client_ip, '::ffff:10.0.0.0/120')", FIRST + SECOND),
    ("inCidrRange(conn.client_ip, '::ffff:0:0/96')", FOURS),
    ("inCidrRanges(conn.client_ip, ['10.0.0.0/24', '2001:db8::/64'])", [*FIRST, *SECOND, *SIXTH]),
    ("inCidrRanges(conn.client_ip, [])", NONE),
    ("inCidrRanges(conn.client_ip, ['10.0.0.0/8', '10.0.0.0/24', '10.0.0.1'])", FOURS),
    # Ports
    ("conn.server_port == 20000", CLIENTS),
    ("conn.server_port == 0x4E20", CLIENTS),
    ("conn.server_port != 20000", NONE),
    ("conn.server_port < 20001", CLIENTS),
    ("conn.server_port < 20000", NONE),
    ("conn.server_port <= 20000", CLIENTS),
    ("conn.server_port > -1", CLIENTS),
    ("conn.server_port > 20000", NONE),
    ("conn.server_port >= 20000", CLIENTS),
    ("conn.server_port in [22, 20000]", CLIENTS),
    ("conn.server_port in [22]", NONE),
    ("conn.server_port in []", NONE),
    # Regions
    ("conn.server_region == 'local'", CLIENTS),
    ("conn.server_region == 'Local'", NONE),
    ("conn.server_region != 'local'", NONE),
    ("conn.server_region in ['eu', 'local']", CLIENTS),
    # Logic and precedence
    ("!false", CLIENTS),
    ("!!false", NONE),
    ("!(conn.client_ip == '10.0.0.1')", CLIENTS[1:]),
    ("!inCidrRange(conn.client_ip, '10.0.0.0/8')", SIXTH),
    ("conn.client_ip == '10.0.0.1' || conn.client_ip == '10.1.0.1'", FIRST + THIRD),
    ("inCidrRange(conn.client_ip, '10.0.0.0/24') && conn.client_ip != '10.0.0.1'", SECOND),
    ("true || false && false", CLIENTS),
    ("(true || false) && false", NONE),
    ("false && false || true", CLIENTS),
    ("false && (false || true)", NONE),
    ("!false && false", NONE),
    ("!(false && false)", CLIENTS),
    ("!true || true", CLIENTS),
    ("((((true))))", CLIENTS),
    # Strings
    (r"conn.client_ip == '10\x2e0.0\X2e1'", FIRST),
    (r"conn.client_ip == '\u0031\U00000030.0.0\0561'", FIRST),
    (r"""conn.server_region != '\a\b\f\n\r\t\v\\\?\"\'\`'""", CLIENTS),
    ("conn.server_region == 'é' || conn.server_region == '\"' || conn.server_region == \"'\"", NONE),
    ("conn.server_region == '// no comment' || true", CLIENTS),
    # Space and comments
    ("\t\n\f\r true \n", CLIENTS),
    ("true // || false", CLIENTS),
    ("false // || true\n || conn.client_ip == '10.0.0.1' // the end", FIRST),
    ("// all\r\ntrue", CLIENTS),
    ("true&&!false||false", CLIENTS),
]


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS)
def test_an_expression_chooses_clients(expression: str, expected: list[str]) -> None:
    assert list_rejected({"inbound": [{"expressions": [expression], "actions": [DENY]}]}) == expected


def restrict(**config: Any) -> dict[str, Any]:
    return {"actions": [{"type": "restrict-ips", "config": config}]}


DOCUMENTS: list[tuple[Any, list[str]]] = [
    ({}, NONE),
    ({"inbound": [], "outbound": []}, NONE),
    ({"inbound": [{"actions": [DENY]}]}, CLIENTS),
    ({"inbound": [{"name": "é", "expressions": [], "actions": [{"type": "deny", "config": {}}]}]}, CLIENTS),
    ({"inbound": [{"actions": [{"type": "deny", "config": None}]}]}, CLIENTS),
    ({"inbound": [{"expressions": ["true", "conn.client_ip == '10.0.0.1'"], "actions": [DENY]}]}, FIRST),
    ({"inbound": [{"expressions": ["false", "true"], "actions": [DENY]}]}, NONE),
    ({"inbound": [restrict(allow=["10.0.0.0/24"])]}, THIRD + SIXTH),
    ({"inbound": [restrict(allow=["10.0.0.1", "2001:db8::1"])]}, SECOND + THIRD),
    ({"inbound": [restrict(allow=["10.0.0.0/8"], deny=["10.0.0.2/32"])]}, SECOND + SIXTH),
    ({"inbound": [restrict(allow=["::ffff:10.0.0.0/120"], deny=[], enforce=True)]}, THIRD + SIXTH),
    ({"inbound": [restrict(allow=["10.0.0.1"], enforce=False)]}, NONE),
    ({"inbound": [restrict(allow=["10.0.0.1"]), restrict(allow=["10.0.0.2"])]}, CLIENTS),
    ({"inbound": [{"expressions": ["false"], **restrict(allow=["10.0.0.1"])}]}, NONE),
    ({"inbound": [{"actions": [*restrict(allow=["10.0.0.0/8"])["actions"], DENY]}]}, CLIENTS),
]


@pytest.mark.parametrize(("document", "expected"), DOCUMENTS)
def test_rules_and_actions_apply_in_order(document: Any, expected: list[str]) -> None:
    assert list_rejected(document) == expected


@given(drawn_policies.policies())
def test_a_random_policy_admits_the_same_clients_as_by_ipaddress(policy: DrawnPolicy) -> None:
    verdicts = traffic_policies.decide(documents.parse(policy.document), PORT, REGION)

    clients = [*LOOPBACK, *OTHER_ADDRESSES]
    assert [admits(verdicts, client) for client in clients] == [policy.admits(client) for client in clients], (
        policy.document
    )


def test_networks_are_merged_into_what_decides() -> None:
    nets = ["10.0.0.0/8", "10.0.0.0/24", "10.0.0.7", "10.9.0.0/16"]
    text = f"inCidrRanges(conn.client_ip, {nets}) && conn.client_ip != '10.0.0.7'"
    document = json.dumps({"inbound": [{"expressions": [text], "actions": [DENY]}]})

    verdicts = traffic_policies.decide(documents.parse(document), PORT, REGION)

    assert [(verdict.is_admitted, [*map(str, verdict.networks)]) for verdict in verdicts] == [
        (True, ["10.0.0.7/32", MAPPED_ONE]),
        (False, ["10.0.0.0/8", MAPPED_ALL]),
        (True, ["0.0.0.0/0", "::/0"]),
    ]


def test_the_largest_policies_take_less_than_a_second() -> None:
    several = [f"10.{number >> 8}.{number & 255}.0/24" for number in range(2000)]
    long = " || ".join(["conn.client_ip!='10.0.0.1'"] * 200)
    for rules in (
        [{"expressions": [f"inCidrRanges(conn.client_ip, {several})"], "actions": [DENY]}],
        [{"expressions": [f"conn.client_ip in ['{network[:-3]}']"], "actions": [DENY]} for network in several[:1000]],
        [{"expressions": [long], "actions": [DENY]}] * 10,
    ):
        start = time.process_time()
        traffic_policies.decide(documents.parse(json.dumps({"inbound": rules})), PORT, REGION)
        assert time.process_time() - start < 1
