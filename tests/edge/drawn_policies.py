"""Random traffic policies, and what they mean by Python's `ipaddress`."""

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from hypothesis import strategies as st

PORT, REGION = 20000, "local"
LOOPBACK = [
    *(f"127.0.{third}.{last}" for third in (0, 1, 2) for last in (1, 2, 3, 128, 200)),
    *("127.1.0.1", "127.255.0.9"),
]
OTHER_ADDRESSES = [
    "10.0.0.1",
    "::1",
    "2001:db8::1",
    "2001:db8::ff",
    "2001:db8:0:1::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
]
_NETWORKS = [
    *("127.0.0.0/8", "127.0.0.0/16", "127.0.0.0/24", "127.0.0.2/31", "127.0.0.128/25", "127.0.1.0/24", "127.0.2.0/30"),
    *("0.0.0.0/0", "127.0.0.1", "127.0.1.3/32", "127.1.0.1/32", "10.0.0.0/255.0.0.0", "::ffff:127.0.2.0/120"),
    *("::/0", "::1", "2001:db8::/32", "2001:db8::/64", "2001:db8::ff/128", "::/64", "::ffff:0:0/96"),
]
_COMPARES = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ANY, _ALL, _COMPARISON, _TRUTH = range(4)  # precedences
_NUMBERS = st.sampled_from([0, 22, PORT - 1, PORT, PORT + 1, 70000])
_SPACE = st.sampled_from([" ", " ", " ", "\n\t", "  // deny || true\n"])
Meaning = Callable[[IPv4Address | IPv6Address], bool]


@dataclass(frozen=True)
class Expression:
    """An expression, its meaning, and how tightly it binds."""

    text: str
    holds: Meaning
    precedence: int = _TRUTH


@dataclass(frozen=True)
class DrawnPolicy:
    """A document, and whether it admits an address."""

    document: str
    admits: Callable[[str], bool]


def policies() -> st.SearchStrategy[DrawnPolicy]:
    """Draw policies within the grammar."""
    return st.lists(_rules(), max_size=3).map(_policy)


def _policy(rules: Sequence[tuple[dict[str, Any], Meaning]]) -> DrawnPolicy:
    def admits(text: str) -> bool:
        address = ip_address(text)
        return not any(rejects(getattr(address, "ipv4_mapped", None) or address) for _, rejects in rules)

    return DrawnPolicy(json.dumps({"inbound": [rule for rule, _ in rules], "outbound": []}), admits)


@st.composite
def _rules(draw: st.DrawFn) -> tuple[dict[str, Any], Meaning]:
    """Draw a rule, and whether it closes the connection of an address."""
    fewest = draw(st.sampled_from([0, 1, 1, 1, 1]))
    expressions = draw(st.lists(_EXPRESSIONS, min_size=fewest, max_size=2))
    actions = draw(st.lists(_actions(), min_size=1, max_size=2))

    def rejects(address: IPv4Address | IPv6Address) -> bool:
        return all(expression.holds(address) for expression in expressions) and any(
            closes(address) for _, closes in actions
        )

    rule = {"expressions": [part.text for part in expressions], "actions": [part for part, _ in actions]}
    return rule, rejects


@st.composite
def _actions(draw: st.DrawFn) -> tuple[dict[str, Any], Meaning]:
    if draw(st.booleans()):
        config: dict[str, Any] = draw(st.sampled_from([{}, {"config": None}, {"config": {}}]))
        return {"type": "deny", **config}, _constant(True)
    networks = st.lists(st.sampled_from(_NETWORKS), max_size=4)
    allow, deny, enforce = draw(networks) or ["127.0.0.0/9"], draw(networks), draw(st.sampled_from([True, True, False]))
    config = {"allow": allow, "deny": deny, "enforce": enforce}

    def closes(address: IPv4Address | IPv6Address) -> bool:
        return enforce and (not _is_in(allow)(address) or _is_in(deny)(address))

    return {"type": "restrict-ips", "config": config}, closes


@st.composite
def _leaves(draw: st.DrawFn) -> Expression:
    text, holds, precedence = draw(st.sampled_from([_client, _client, _networks, _networks, _port, _region, _truth]))(
        draw
    )
    return Expression(text, holds, precedence)


def _client(draw: st.DrawFn) -> tuple[str, Meaning, int]:
    addresses = draw(st.lists(st.sampled_from([*LOOPBACK, *OTHER_ADDRESSES]), min_size=1, max_size=3))
    first, holds = draw(_draw_quoted(addresses[0])), _is_in(addresses[:1])
    several = "[" + ",".join(draw(_draw_quoted(address)) for address in addresses) + "]"
    forms: list[tuple[str, Meaning]] = [
        (f"conn.client_ip == {first}", holds),
        (f"{first}==conn.client_ip", holds),
        (f"conn.client_ip!={first}", _negate(holds)),
        (f"{first} != conn.client_ip", _negate(holds)),
        (f"conn.client_ip in {several}", _is_in(addresses)),
    ]
    return (*draw(st.sampled_from(forms)), _COMPARISON)


def _networks(draw: st.DrawFn) -> tuple[str, Meaning, int]:
    networks = draw(st.lists(st.sampled_from(_NETWORKS), min_size=1, max_size=4))
    if len(networks) == 1:
        return f"inCidrRange(conn.client_ip, {draw(_draw_quoted(networks[0]))})", _is_in(networks), _TRUTH
    several = ", ".join(draw(_draw_quoted(network)) for network in networks)
    return f"inCidrRanges( conn.client_ip , [ {several} ] )", _is_in(networks), _TRUTH


def _port(draw: st.DrawFn) -> tuple[str, Meaning, int]:
    sign, number = draw(st.sampled_from([*_COMPARES, "in"])), draw(_NUMBERS)
    if sign == "in":
        return f"conn.server_port in [22, {number}]", _constant(number == PORT), _COMPARISON
    return f"conn.server_port {sign} {number}", _constant(_COMPARES[sign](PORT, number)), _COMPARISON


def _region(draw: st.DrawFn) -> tuple[str, Meaning, int]:
    sign, region = draw(st.sampled_from(["==", "!=", "in"])), draw(st.sampled_from([REGION, "eu-central-1"]))
    other = f"['us-east-1', '{region}']" if sign == "in" else f'"{region}"'
    return f"conn.server_region {sign} {other}", _constant((region == REGION) != (sign == "!=")), _COMPARISON


def _truth(draw: st.DrawFn) -> tuple[str, Meaning, int]:
    value = draw(st.booleans())
    return str(value).lower(), _constant(value), _TRUTH


@st.composite
def _combinations(draw: st.DrawFn, parts: st.SearchStrategy[Expression]) -> Expression:
    """Draw a combination of expressions, with the parentheses that it needs and some others."""
    kind = draw(st.sampled_from(["||", "&&", "!"]))
    if kind == "!":
        part = draw(parts)
        times = draw(st.integers(1, 3))
        holds = _negate(part.holds) if times % 2 else part.holds
        return Expression("!" * times + _enclose(draw, part, _TRUTH), holds)
    expressions, level = draw(st.lists(parts, min_size=2, max_size=3)), _ANY if kind == "||" else _ALL
    text = f"{draw(_SPACE)}{kind}{draw(_SPACE)}".join(
        _enclose(draw, expression, level + 1) for expression in expressions
    )
    combine = any if kind == "||" else all
    return Expression(text, lambda address: combine(expression.holds(address) for expression in expressions), level)


_EXPRESSIONS = st.recursive(_leaves(), _combinations, max_leaves=8)


def _enclose(draw: st.DrawFn, part: Expression, precedence: int) -> str:
    return part.text if part.precedence >= precedence and draw(st.integers(0, 3)) else f"({part.text})"


def _draw_quoted(text: str) -> st.SearchStrategy[str]:
    escaped = "'" + text.replace(".", "\\x2e").replace(":", "\\072") + "'"
    return st.sampled_from([f"'{text}'", f'"{text}"', escaped])


def _is_in(texts: Sequence[str]) -> Meaning:
    """Return whether an address is in one of some networks. IPv4-mapped ones are of IPv4."""
    networks = []
    for text in texts:
        network = ip_network(text)
        mapped = getattr(network.network_address, "ipv4_mapped", None)
        networks.append(ip_network(f"{mapped}/{network.prefixlen - 96}") if mapped else network)
    return lambda address: any(address in network for network in networks)


def _negate(meaning: Meaning) -> Meaning:
    return lambda address: not meaning(address)


def _constant(value: bool) -> Meaning:
    return lambda _: value
