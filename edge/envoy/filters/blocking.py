"""Refusal of blocked networks and banned hosts, without ending other connections. Pure.

HTTP requests are refused by filters with separate resources for their rules. Byte connections are refused when they
open: the listener's matcher chooses no filter chain. A filter would decide at the client's first byte only, after an
upstream that speaks first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from edge.envoy import json_parts as parts
from edge.envoy.resources import BLOCKED_PART, Changes, Json, Key, Resource

_NAME = "blocked"
_RBAC = f"{parts.TYPE}.extensions.filters.http.rbac.v3.RBAC"
_CONNECTIONS, _RBAC_OF_CONNECTIONS = "blocked/bytes", f"{parts.NETWORK}.rbac.v3.RBAC"
CHAIN = "bytes"  # the filter chain of each listener for byte connections
REFUSED = "refused"  # no chain has this name: Envoy closes the connection
MATCHER: Mapping[str, Json] = {
    "on_no_match": {"action": parts.chain(CHAIN)}
}  # of such a listener; the blocked part extends it
_MOST_LETTERS = 1500  # of one expression: up to six RE2 instructions a letter, and Envoy accepts 10,000


def build_http_filter() -> Json:
    """Return the first filter of each public HTTP manager. It checks every request."""
    return {"name": _NAME, "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC]}}


def build_network_filter() -> Json:
    """Return the filter of byte connections. It checks the server name at the client's first byte."""
    return {
        "name": _CONNECTIONS,
        "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC_OF_CONNECTIONS]},
    }


def build_rules(networks: Iterable[str], banned: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the rules of the filters.

    Requests from blocked networks or for banned hosts get 403, also on open connections. Byte connections for banned
    hosts end. The filters check bans too, since a wildcard edge or an older edge can have a banned host.
    """
    sources: list[Json] = [{"remote_ip": it} for it in parts.networks(networks)]
    hosts: list[Json] = [{"safe_regex": {"regex": regex}} for regex in _regexes(banned)]
    asked: list[Json] = [{"header": {"name": ":authority", "string_match": it}} for it in hosts]
    named: list[Json] = [{"requested_server_name": it} for it in hosts]
    return (
        Resource(Key("extension", _NAME), parts.extension(_NAME, _RBAC, rules=_deny_rules(sources, asked))),
        Resource(
            Key("extension", _CONNECTIONS),
            parts.extension(_CONNECTIONS, _RBAC_OF_CONNECTIONS, rules=_deny_rules([], named), stat_prefix=_NAME),
        ),
    )


class BlockedListeners:
    """The listeners for byte connections, each with a part that refuses blocked networks.

    Filter chains stay the same, so a change of the networks ends no connection.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._networks: tuple[str, ...] = ()

    def block(self, networks: Sequence[str]) -> Changes:
        """Replace the blocked networks. Return the changes."""
        self._networks = tuple(networks)
        return dict(map(self._part, self._names))

    def guard(self, changes: Changes) -> Changes:
        """Return changes with the blocking parts of their listeners."""
        added = {key.name for key, it in changes.items() if it and _takes_bytes(it)}
        gone = {key.name for key, it in changes.items() if it is None and key == Key("listener", key.name)}
        removed: Changes = {Key("listener", name, BLOCKED_PART): None for name in gone & self._names}
        self._names = self._names - gone | added
        return {**changes, **removed, **dict(map(self._part, added))} if self._networks else changes

    def _part(self, listener: str) -> tuple[Key, Resource | None]:
        key = Key("listener", listener, BLOCKED_PART)
        if not self._networks:
            return key, None
        is_blocked = parts.address_in(self._networks, "SourceIPInput", "blocked")
        refused: Json = {"predicate": is_blocked, "on_match": {"action": parts.chain(REFUSED)}}
        return key, Resource(key, {"filter_chain_matcher": {"matcher_list": {"matchers": [refused]}}})


def _takes_bytes(listener: Resource) -> bool:
    """Return whether a resource is a whole listener with a matcher for filter chains."""
    is_whole = listener.key.kind == "listener" and not listener.key.part
    return is_whole and isinstance(listener.content, Mapping) and "filter_chain_matcher" in listener.content


def _deny_rules(sources: list[Json], hosts: list[Json]) -> Json:
    policies: dict[str, Json] = {}
    if sources:
        policies[_NAME] = {"permissions": [{"any": True}], "principals": sources}
    if hosts:
        policies["banned"] = {"permissions": hosts, "principals": [{"any": True}]}
    return {"action": "DENY", "policies": policies}


def _regexes(banned: Iterable[str]) -> Iterator[str]:
    """Yield expressions that match the banned names and patterns, with or without a port."""
    found: list[str] = []
    for text in banned:
        if found and sum(map(len, found)) + len(text) > _MOST_LETTERS:
            yield _any_of(found)
            found = []
        found.append(r"\C*".join(map(re.escape, text.split("*"))))
    if found:
        yield _any_of(found)


def _any_of(expressions: list[str]) -> str:
    return f"(?i)(?:{'|'.join(expressions)})(?::[0-9]*)?"
