"""The refusal of visitors from blocked networks, and of banned hosts, by which no other connection ends. Pure.

Requests are refused by filters whose rules are resources of their own. A connection of bytes is refused when it
comes: its listener chooses no chain of filters for it. Envoy's filter would decide with the first byte of the client,
when an upstream that speaks first has spoken.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from edge.traffic import parts
from edge.traffic.resources import BLOCKED_PART, Changes, Json, Key, Resource

_NAME = "blocked"
_RBAC = f"{parts.TYPE}.extensions.filters.http.rbac.v3.RBAC"
_CONNECTIONS, _RBAC_OF_CONNECTIONS = "blocked/bytes", f"{parts.NETWORK}.rbac.v3.RBAC"
CHAIN = "bytes"  # of the filters of each listener for connections of bytes
REFUSED = "refused"  # no chain has this name: Envoy closes the connection
MATCHER: Mapping[str, Json] = {"on_no_match": {"action": parts.chain(CHAIN)}}  # of such a listener; a part adds to it
_MOST_LETTERS = 1500  # of one expression: RE2 makes up to six instructions of a letter, and Envoy takes 10,000


def build_http_filter() -> Json:
    """Return the filter that stands first in each HTTP manager of visitors, and asks of each request."""
    return {"name": _NAME, "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC]}}


def build_network_filter() -> Json:
    """Return the filter of connections of bytes, which asks for the server name when the client has sent something."""
    return {
        "name": _CONNECTIONS,
        "config_discovery": {"config_source": parts.ADS, "type_urls": [_RBAC_OF_CONNECTIONS]},
    }


def build_rules(networks: Iterable[str], banned: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the rules of the filters.

    A request from these networks, or for a name or pattern of banned hosts, is a 403, also on connections that are
    open. A connection of bytes for a banned host ends. Banned hosts are refused here too, since a wildcard host, or an
    edge from before the ban, has them.
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
    """The listeners for connections of bytes, each with a part that refuses blocked networks.

    The chain of filters stays the same, so that a change of the networks ends no connection.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._networks: tuple[str, ...] = ()

    def block(self, networks: Sequence[str]) -> Changes:
        """Block networks instead of those before; return what changes."""
        self._networks = tuple(networks)
        return dict(map(self._part, self._names))

    def guard(self, changes: Changes) -> Changes:
        """Return changes with the parts of the listeners in them."""
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
    """Return whether a resource is a whole listener whose chain of filters the matcher chooses."""
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
    """Yield expressions of the hosts, with or without a port, that match one of the names and patterns."""
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
