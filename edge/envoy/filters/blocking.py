"""Refuses blocked networks and banned hosts, without ending other connections. This file does no I/O.

HTTP requests are refused by filters. The rules of these filters are in separate resources, so a change of the rules
ends no connections.

Byte connections are refused when they open: the listener's matcher chooses no filter chain for them. A filter would
decide only at the client's first byte. Until then, an upstream that sends first could send data to a refused client.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import Message

from edge.envoy import matchers, parts, v3
from edge.envoy.matchers import REFUSED
from edge.envoy.resources import BLOCKED_PART, Changes, Key, Resource, encode, encode_part

_NAME, _CONNECTIONS = "blocked", "blocked/bytes"
CHAIN = "bytes"  # the name of the only filter chain of a listener for byte connections
# The matcher of listeners for byte connections. `BlockedListeners` adds a part that refuses blocked networks.
MATCHER = v3.Matcher(on_no_match=matchers.choose(CHAIN))
# The most letters in one regular expression. A letter takes up to six RE2 instructions, and Envoy accepts 10,000.
_MAX_LENGTH = 1500


def _discover(rules: Message) -> v3.ExtensionConfigSource:
    return v3.ExtensionConfigSource(
        config_source=parts.ADS, type_urls=[f"type.googleapis.com/{rules.DESCRIPTOR.full_name}"]
    )


# The first filter of each public HTTP connection manager. It checks the visitor and the host of every request.
HTTP_FILTER = v3.HttpFilter(name=_NAME, config_discovery=_discover(v3.HttpRBAC()))
# A filter of byte connections, which refuses banned server names when the client's first byte arrives.
NETWORK_FILTER = v3.Filter(name=_CONNECTIONS, config_discovery=_discover(v3.NetworkRBAC()))


def build_rules(networks: Iterable[str], banned: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the resources with the rules of the filters.

    Requests from blocked networks or for banned hosts get 403, also on open connections. Byte connections to banned
    hosts are closed. The API refuses banned hosts too, but a wildcard edge or an older edge can serve a banned host.
    """
    sources = [v3.Principal(remote_ip=cidr) for cidr in parts.networks(networks)]
    hosts = [parts.regex(regex) for regex in _regexes(banned)]
    requests = [v3.Permission(header=v3.HeaderMatcher(name=":authority", string_match=host)) for host in hosts]
    connections = [v3.Permission(requested_server_name=host) for host in hosts]
    http = v3.HttpRBAC(rules=_deny(sources, requests))
    network = v3.NetworkRBAC(rules=_deny([], connections), stat_prefix=_NAME)
    return (
        encode(v3.TypedExtensionConfig(name=_NAME, typed_config=parts.pack(http))),
        encode(v3.TypedExtensionConfig(name=_CONNECTIONS, typed_config=parts.pack(network))),
    )


class BlockedListeners:
    """Refuses visitors from blocked networks in each listener that passes on bytes.

    The refusal is a separate part of the listener's matcher. Filter chains stay the same when the blocked networks
    change, so Envoy closes no connections.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._networks: tuple[str, ...] = ()

    def block(self, networks: Sequence[str]) -> Changes:
        """Replace the blocked networks. Return the changed matcher parts of all listeners."""
        self._networks = tuple(networks)
        return dict(map(self._part, self._names))

    def guard(self, changes: Changes) -> Changes:
        """Return `changes` with matcher parts. Parts are added for new listeners, and removed with old listeners."""
        added = {key.name for key, resource in changes.items() if resource and _takes_bytes(resource)}
        removed_names = {
            key.name for key, resource in changes.items() if resource is None and key == Key("listener", key.name)
        }
        removed: Changes = {Key("listener", name, BLOCKED_PART): None for name in removed_names & self._names}
        self._names = self._names - removed_names | added
        return {**changes, **removed, **dict(map(self._part, added))} if self._networks else changes

    def _part(self, listener: str) -> tuple[Key, Resource | None]:
        key = Key("listener", listener, BLOCKED_PART)
        if not self._networks:
            return key, None
        refusal = matchers.match(matchers.comes_from(self._networks, "blocked"), matchers.choose(REFUSED))
        return key, encode_part(key, v3.Listener(filter_chain_matcher=refusal))


def _takes_bytes(listener: Resource) -> bool:
    """Return whether a resource is a whole listener, with a matcher that chooses a filter chain."""
    is_whole = listener.key.kind == "listener" and not listener.key.part
    return is_whole and v3.Listener.FromString(listener.encoded).HasField("filter_chain_matcher")


def _deny(sources: list[v3.Principal], hosts: list[v3.Permission]) -> v3.RBAC:
    policies = {}
    if sources:
        policies[_NAME] = v3.Policy(permissions=[v3.Permission(any=True)], principals=sources)
    if hosts:
        policies["banned"] = v3.Policy(permissions=hosts, principals=[v3.Principal(any=True)])
    return v3.RBAC(action=v3.RBAC.DENY, policies=policies)


def _regexes(banned: Iterable[str]) -> Iterator[str]:
    """Yield regular expressions that match the banned names and patterns, with or without a port."""
    expressions: list[str] = []
    for text in banned:
        if expressions and sum(map(len, expressions)) + len(text) > _MAX_LENGTH:
            yield _any_of(expressions)
            expressions = []
        expressions.append(r"\C*".join(map(re.escape, text.split("*"))))
    if expressions:
        yield _any_of(expressions)


def _any_of(expressions: list[str]) -> str:
    return f"(?i)(?:{'|'.join(expressions)})(?::[0-9]*)?"
