"""Refusal of blocked networks and banned hosts, without ending other connections. Pure.

HTTP requests are refused by filters with separate resources for their rules. Byte connections are refused when they
open: the listener's matcher chooses no filter chain. A filter would decide at the client's first byte only, after an
upstream that speaks first.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from envoy.config.core.v3.config_source_pb2 import ExtensionConfigSource
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.config.listener.v3.listener_components_pb2 import Filter
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.config.rbac.v3.rbac_pb2 import RBAC, Permission, Policy, Principal
from envoy.config.route.v3.route_components_pb2 import HeaderMatcher
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC as HttpRBAC
from envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2 import HttpFilter
from envoy.extensions.filters.network.rbac.v3.rbac_pb2 import RBAC as NetworkRBAC
from google.protobuf.message import Message
from xds.type.matcher.v3.matcher_pb2 import Matcher

from edge.envoy import matchers, parts
from edge.envoy.matchers import REFUSED
from edge.envoy.resources import BLOCKED_PART, Changes, Key, Resource, encode, encode_part

_NAME, _CONNECTIONS = "blocked", "blocked/bytes"
CHAIN = "bytes"  # the filter chain of each listener for byte connections
MATCHER = Matcher(on_no_match=matchers.choose(CHAIN))  # of such a listener; the blocked part extends it
_MOST_LETTERS = 1500  # of one expression: up to six RE2 instructions a letter, and Envoy accepts 10,000


def _discover(rules: Message) -> ExtensionConfigSource:
    return ExtensionConfigSource(
        config_source=parts.ADS, type_urls=[f"type.googleapis.com/{rules.DESCRIPTOR.full_name}"]
    )


# The first filter of each public HTTP manager. It checks every request.
HTTP_FILTER = HttpFilter(name=_NAME, config_discovery=_discover(HttpRBAC()))
# A filter of byte connections. It checks the server name at the client's first byte.
NETWORK_FILTER = Filter(name=_CONNECTIONS, config_discovery=_discover(NetworkRBAC()))


def build_rules(networks: Iterable[str], banned: Iterable[str]) -> tuple[Resource, Resource]:
    """Return the rules of the filters.

    Requests from blocked networks or for banned hosts get 403, also on open connections. Byte connections for banned
    hosts end. The filters check bans too, since a wildcard edge or an older edge can have a banned host.
    """
    sources = [Principal(remote_ip=it) for it in parts.networks(networks)]
    hosts = [parts.regex(regex) for regex in _regexes(banned)]
    requests = [Permission(header=HeaderMatcher(name=":authority", string_match=it)) for it in hosts]
    connections = [Permission(requested_server_name=it) for it in hosts]
    http = HttpRBAC(rules=_deny(sources, requests))
    network = NetworkRBAC(rules=_deny([], connections), stat_prefix=_NAME)
    return (
        encode(TypedExtensionConfig(name=_NAME, typed_config=parts.pack(http))),
        encode(TypedExtensionConfig(name=_CONNECTIONS, typed_config=parts.pack(network))),
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
        refusal = matchers.match(matchers.comes_from(self._networks, "blocked"), matchers.choose(REFUSED))
        return key, encode_part(key, Listener(filter_chain_matcher=refusal))


def _takes_bytes(listener: Resource) -> bool:
    """Return whether a resource is a whole listener with a matcher for filter chains."""
    is_whole = listener.key.kind == "listener" and not listener.key.part
    return is_whole and Listener.FromString(listener.encoded).HasField("filter_chain_matcher")


def _deny(sources: list[Principal], hosts: list[Permission]) -> RBAC:
    policies = {}
    if sources:
        policies[_NAME] = Policy(permissions=[Permission(any=True)], principals=sources)
    if hosts:
        policies["banned"] = Policy(permissions=hosts, principals=[Principal(any=True)])
    return RBAC(action=RBAC.DENY, policies=policies)


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
