"""The expressions of traffic policies: a small part of CEL. This file does no I/O.

Anything outside this grammar is an error. If an unknown expression counted as a condition that does not match, a `deny`
rule with this expression would admit clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias, TypeVar

from chalicelib.model.edges.policy_tokens import (
    CLIENT_IP,
    SERVER_PORT,
    SERVER_REGION,
    Token,
    UnsupportedPolicy,
    quote,
    show,
    unquote,
)

Network: TypeAlias = IPv4Network | IPv6Network
Condition: TypeAlias = "Constant | ClientIn | PortIs | RegionIn | Not | AllOf | AnyOf"
_NUMBERS = range(-(1 << 63), 1 << 63)  # the range of integers in CEL
_LONGEST_NUMBER = 40  # the most characters of a number in an expression
_MAPPED_BITS = 96  # bits before the IPv4 address in an IPv4-mapped IPv6 address
T = TypeVar("T")


@dataclass(frozen=True)
class Constant:
    """A condition that is always or never true."""

    value: bool


@dataclass(frozen=True)
class ClientIn:
    """A condition that is true if the client's address is in one of the `networks`."""

    networks: tuple[Network, ...]


@dataclass(frozen=True)
class PortIs:
    """A condition that compares the server's port with a number, for example `port < 1024`."""

    operator: str
    number: int


@dataclass(frozen=True)
class RegionIn:
    """A condition that is true if the server's region is one of the `regions`."""

    regions: tuple[str, ...]


@dataclass(frozen=True)
class Not:
    """A condition that is true if `condition` is false."""

    condition: Condition


@dataclass(frozen=True)
class AllOf:
    """A condition that is true if all of its `conditions` are true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    """A condition that is true if at least one of its `conditions` is true."""

    conditions: tuple[Condition, ...]


def parse(tokens: Sequence[Token]) -> Condition:
    """Return the condition of an expression. Raises UnsupportedPolicy."""
    return _Parser(tokens).parse()


def parse_address(text: str) -> Network:
    """Return the network that contains only one address. Raises UnsupportedPolicy."""
    try:
        address = ip_address(text)
    except ValueError:
        raise UnsupportedPolicy(f"{quote(text)} is not an IP address.") from None
    return parse_network(str(address))


def parse_network(text: str) -> Network:
    """Return a network. An IPv4-mapped network becomes an IPv4 network. Raises UnsupportedPolicy."""
    try:
        network = ip_network(text)
    except ValueError:
        raise UnsupportedPolicy(f"{quote(text)} is not an IP address or network with host bits zero.") from None
    if "%" in text:
        raise UnsupportedPolicy(f"{quote(text)} has a zone, which is not supported by this version.")
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped:
        return IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - _MAPPED_BITS))
    return network


def count_networks(condition: Condition) -> int:
    """Return the number of networks in a condition and its nested conditions."""
    match condition:
        case ClientIn(networks):
            return len(networks)
        case Not(negated):
            return count_networks(negated)
        case AllOf(conditions) | AnyOf(conditions):
            return sum(map(count_networks, conditions))
    return 0


class _Parser:
    """A parser by recursive descent, with the precedence of CEL."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._position = tokens, 0

    def parse(self) -> Condition:
        condition = self._parse_any()
        if self._token.kind != "end":
            raise self._error("||, && or the end")
        return condition

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    def _parse_any(self) -> Condition:
        conditions = [self._parse_all()]
        while self._take("||"):
            conditions.append(self._parse_all())
        return conditions[0] if len(conditions) == 1 else AnyOf(tuple(conditions))

    def _parse_all(self) -> Condition:
        conditions = [self._parse_operand()]
        while self._take("&&"):
            conditions.append(self._parse_operand())
        return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))

    def _parse_operand(self) -> Condition:
        """Parse a comparison or a boolean. A negation before a comparison is an error."""
        if self._token.kind == "string":
            return self._parse_reversed()
        if compare := _COMPARISONS.get(self._token.text):
            self._position += 1
            return compare(self)
        negations = 0
        while self._take("!"):
            negations += 1
        condition = self._parse_truth()
        return Not(condition) if negations % 2 else condition

    def _parse_truth(self) -> Condition:
        if self._take("("):
            condition = self._parse_any()
            self._expect(")")
            return condition
        token = self._token
        if token.kind != "name" or token.text in _COMPARISONS:
            raise self._error("a condition")
        self._position += 1
        if token.text in ("true", "false"):
            return Constant(token.text == "true")
        if parse_networks := _FUNCTIONS.get(token.text):
            return self._parse_call(parse_networks)
        raise UnsupportedPolicy(f"{show(token)} is not supported by this version.")

    def _parse_call(self, parse_networks: Callable[["_Parser"], Sequence[Network]]) -> Condition:
        self._expect("(")
        self._expect(CLIENT_IP)
        self._expect(",")
        networks = parse_networks(self)
        self._expect(")")
        return ClientIn(tuple(networks))

    def _parse_reversed(self) -> Condition:
        """Parse a comparison with a string on the left and the client's address on the right."""
        address = self.read_address()
        sign = self._expect("==", "!=")
        self._expect(CLIENT_IP)
        return _negate_unless(sign == "==", ClientIn((address,)))

    def compare_client(self) -> Condition:
        sign = self._expect("==", "!=", "in")
        addresses = self.read_list(_Parser.read_address) if sign == "in" else [self.read_address()]
        return _negate_unless(sign != "!=", ClientIn(tuple(addresses)))

    def compare_port(self) -> Condition:
        sign = self._expect("==", "!=", "<", "<=", ">", ">=", "in")
        if sign != "in":
            return PortIs(sign, self._read_integer())
        return AnyOf(tuple(PortIs("==", number) for number in self.read_list(_Parser._read_integer)))

    def compare_region(self) -> Condition:
        sign = self._expect("==", "!=", "in")
        regions = self.read_list(_Parser._read_string) if sign == "in" else [self._read_string()]
        return _negate_unless(sign != "!=", RegionIn(tuple(regions)))

    def read_list(self, read: Callable[["_Parser"], T]) -> list[T]:
        self._expect("[")
        if self._take("]"):
            return []
        values = [read(self)]
        while self._expect(",", "]") == ",":
            values.append(read(self))
        return values

    def read_address(self) -> Network:
        return parse_address(self._read_string())

    def read_network(self) -> Network:
        return parse_network(self._read_string())

    def _read_string(self) -> str:
        if self._token.kind != "string":
            raise self._error("a string")
        self._position += 1
        return unquote(self._tokens[self._position - 1].text)

    def _read_integer(self) -> int:
        token = self._token
        if token.kind != "integer":
            raise self._error("an integer")
        base = 16 if "x" in token.text.lower() else 10
        number = int(token.text[:_LONGEST_NUMBER], base)
        if number not in _NUMBERS or len(token.text) > _LONGEST_NUMBER:
            raise UnsupportedPolicy(f"{show(token)} is not an integer of 64 bits.")
        self._position += 1
        return number

    def _take(self, text: str) -> bool:
        """Skip the next token and return True if it is the given sign, otherwise return False."""
        is_next = self._token.kind == "sign" and self._token.text == text
        self._position += is_next
        return is_next

    def _expect(self, *texts: str) -> str:
        """Skip the next token, which must be one of the given signs or names. Raises UnsupportedPolicy for another
        token.
        """
        token = self._token
        if token.kind not in ("sign", "name") or token.text not in texts:
            raise self._error(" or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])))
        self._position += 1
        return token.text

    def _error(self, expected: str) -> UnsupportedPolicy:
        """Return the error about the next token. The message names variables and functions that are not supported."""
        token = self._token
        if token.kind == "name" and token.text not in _NAMES:
            return UnsupportedPolicy(f"{show(token)} is not supported by this version.")
        return UnsupportedPolicy(f"expected {expected} at character {token.start}, not {show(token)}.")


_COMPARISONS: Mapping[str, Callable[[_Parser], Condition]] = {
    CLIENT_IP: _Parser.compare_client,
    SERVER_PORT: _Parser.compare_port,
    SERVER_REGION: _Parser.compare_region,
}
_FUNCTIONS: Mapping[str, Callable[[_Parser], Sequence[Network]]] = {
    "inCidrRange": lambda parser: [parser.read_network()],
    "inCidrRanges": lambda parser: parser.read_list(_Parser.read_network),
}
_NAMES = frozenset([*_COMPARISONS, *_FUNCTIONS, "true", "false"])


def _negate_unless(is_positive: bool, condition: Condition) -> Condition:
    return condition if is_positive else Not(condition)
