"""ACL rules (SPEC 2.3.1): names that an SSH credential or user certificate can bind.

An empty ACL allows everything. Domains and addresses are not case-sensitive. Labels are case-sensitive.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

EXTENSION = "bind@tunnel-edge"  # the extension of SSH user certificates that contains ACL rules
_EVERYTHING, _BIND = "*", "bind:"
_PART = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = rf"(?:{_PART}\.)*(?![0-9]+\Z){_PART}"  # not 192.0.2.1: a name that ends with a number is an IP address
_IPV6 = r"\[([0-9A-Fa-f:.]+)\]"  # no zone such as %eth0, because a zone has a meaning on one machine only
_PORT = r"[1-9][0-9]{0,4}"
_MAX_DOMAIN, _MAX_LABEL = 253, 255


@dataclass(frozen=True)
class Domain:
    """A domain in lower case.

    In a rule, `*.<suffix>` matches every domain with that suffix, and the wildcard domain `*.<suffix>`.
    """

    name: str


@dataclass(frozen=True)
class Address:
    """A port of a domain or IP address. The address is in its canonical form."""

    host: str
    port: int


@dataclass(frozen=True)
class Label:
    """A label of a backend tunnel. In a rule, `*` matches any key or value."""

    key: str
    value: str


Target = Domain | Address | Label


def check(rule: str) -> str:
    """Return the rule if it is valid. Raises ValueError with the problem."""
    if rule != _EVERYTHING:
        _parse_rule(rule)
    return rule


def split(text: str) -> list[str]:
    """Return the rules in a text with commas between them. Raises ValueError with the problem."""
    rules = text.split(",")
    for rule in rules:
        try:
            check(rule)
        except ValueError as error:
            raise ValueError(f"must be comma-separated rules: {rule!r} {error}") from None
    return rules


def is_within(rule: str, bound: str) -> bool:
    """Return whether the rule `bound` permits everything that `rule` permits. Raises ValueError if one is invalid."""
    if _EVERYTHING in (rule, bound):
        check(rule)
        return bound == _EVERYTHING
    return _covers(_parse_rule(bound), _parse_rule(rule))


def permits(acl: Sequence[str], target: str) -> bool:
    """Return whether rules permit the binding of a domain, an address or a label.

    The target has the form that follows `bind:` in a rule: `a.example.com` or `*.example.com`, `a.example.com:22` or
    `[::1]:22`, `key=value`. Raises ValueError for any other text and for a label with a `*`.
    """
    parsed_target = _parse_target(target)
    if isinstance(parsed_target, Label) and _EVERYTHING in (parsed_target.key, parsed_target.value):
        raise ValueError("must be one label, for example app=web: '*' is allowed in rules only")
    return not acl or any(rule == _EVERYTHING or _covers(_parse_rule(rule), parsed_target) for rule in acl)


def _covers(rule: Target, target: Target) -> bool:
    match rule, target:
        case Domain(name=suffix), Domain(name=name) if suffix.startswith("*."):
            return name.endswith(suffix[1:])
        case Label(key=key, value=value), Label():
            return key in (_EVERYTHING, target.key) and value in (_EVERYTHING, target.value)
    return rule == target


def _parse_rule(rule: str) -> Target:
    if not rule.startswith(_BIND):
        raise ValueError("must be '*' or start with 'bind:'")
    return _parse_target(rule.removeprefix(_BIND))


def _parse_target(text: str) -> Target:
    if "=" in text:
        key, _, value = text.partition("=")
        return Label(_parse_label(key), _parse_label(value))
    host, colon, port = text.rpartition(":")
    if colon and not port.endswith("]"):
        return Address(_parse_host(host), _parse_port(port))
    wildcard = "*." if text.startswith("*.") else ""
    return Domain(wildcard + _parse_domain(text.removeprefix(wildcard)))


def _parse_domain(text: str) -> str:
    if not text.isascii():
        raise ValueError("must have the domain in ASCII form (xn--…)")
    if len(text) > _MAX_DOMAIN or not re.fullmatch(_DOMAIN, text.lower()):
        raise ValueError("must be bind:<domain>, bind:*.<suffix>, bind:<host>:<port> or bind:<key>=<value>")
    return text.lower()


def _parse_host(text: str) -> str:
    if text.startswith("*"):
        raise ValueError("must not have both a wildcard and a port")
    if ":" in text or text.startswith("["):
        return _parse_ipv6(text)
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return _parse_domain(text)


def _parse_ipv6(text: str) -> str:
    bracketed = re.fullmatch(_IPV6, text)
    try:
        return str(ipaddress.IPv6Address(bracketed[1] if bracketed else ""))
    except ValueError:
        raise ValueError("must be bind:<host>:<port>, with an IPv6 address in brackets: bind:[::1]:22") from None


def _parse_port(text: str) -> int:
    if not re.fullmatch(_PORT, text) or int(text) > 65535:
        raise ValueError("must end with a port from 1 to 65535")
    return int(text)


def _parse_label(text: str) -> str:
    plain = text.isprintable() and text == text.strip() and "*" not in text
    if text != _EVERYTHING and not (plain and 1 <= len(text.encode()) <= _MAX_LABEL):
        raise ValueError(
            f"must be bind:<key>=<value>; the key and the value are each '*', or 1 to {_MAX_LABEL} bytes of printable "
            "text without '*'"
        )
    return text
