"""Encoded resources with their versions, and Envoy's answers to them.

The encodings of a resource's parts are joined: protocol buffers decode them as one message.
"""

import functools
import hashlib
import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, NamedTuple

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from envoy.config.route.v3.scoped_route_pb2 import ScopedRouteConfiguration
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import Secret
from google.protobuf import json_format

from edge.envoy import selector
from edge.envoy.resources import Changes, Form, Kind, Resource

# Messages that stand within others by the name of their type: importing them makes them known.
for _module in (
    "access_loggers.file.v3.file",
    "access_loggers.filters.cel.v3.cel",
    "filters.http.header_mutation.v3.header_mutation",
    "filters.http.header_to_metadata.v3.header_to_metadata",
    "filters.http.local_ratelimit.v3.local_rate_limit",
    "filters.http.rbac.v3.rbac",
    "filters.http.router.v3.router",
    "filters.http.set_filter_state.v3.set_filter_state",
    "filters.listener.proxy_protocol.v3.proxy_protocol",
    "filters.network.connection_limit.v3.connection_limit",
    "filters.network.rbac.v3.rbac",
    "retry.host.previous_hosts.v3.previous_hosts",
    "filters.listener.tls_inspector.v3.tls_inspector",
    "filters.network.http_connection_manager.v3.http_connection_manager",
    "filters.network.set_filter_state.v3.set_filter_state",
    "filters.network.tcp_proxy.v3.tcp_proxy",
    "http.early_header_mutation.header_mutation.v3.header_mutation",
    "matching.common_inputs.network.v3.network_inputs",
    "matching.input_matchers.ip.v3.ip",
    "transport_sockets.proxy_protocol.v3.upstream_proxy_protocol",
    "transport_sockets.raw_buffer.v3.raw_buffer",
    "transport_sockets.tls.v3.tls",
    "upstreams.http.v3.http_protocol_options",
):
    importlib.import_module(f"envoy.extensions.{_module}_pb2")
selector.register_messages()

MESSAGES: dict[Kind, Any] = {
    "cluster": Cluster,
    "extension": TypedExtensionConfig,
    "listener": Listener,
    "routes": RouteConfiguration,
    "scope": ScopedRouteConfiguration,
    "secret": Secret,
}
TYPES = {kind: f"type.googleapis.com/{message.DESCRIPTOR.full_name}" for kind, message in MESSAGES.items()}


_LARGE = 64 << 10  # characters of a listener with a long traffic policy: rarely repeated, and would fill the cache
_FILL = "\x7f"  # padding of placeholders; occurs in no name, id or PEM


class Name(NamedTuple):
    kind: Kind
    name: str


@dataclass(frozen=True)
class Encoded:
    """The encoding of a resource or a part."""

    digest: int
    value: bytes


class Parts:
    """The parts of a resource, in any order. The digest is an XOR, so a change costs one hash."""

    def __init__(self) -> None:
        self.digest = 0
        self._encoded: dict[str, Encoded] = {}

    @property
    def is_whole(self) -> bool:
        return "" in self._encoded

    def put(self, part: str, made: Encoded) -> None:
        """Add or replace a part."""
        before = self._encoded.get(part)
        self.digest ^= made.digest ^ (before.digest if before else 0)
        self._encoded[part] = made

    def drop(self, part: str) -> None:
        """Remove a part, if it exists."""
        if before := self._encoded.pop(part, None):
            self.digest ^= before.digest

    def joined(self) -> bytes:
        """Return the encoding of the whole resource."""
        return b"".join(part.value for part in self._encoded.values())


@dataclass(frozen=True)
class Answer:
    """Envoy's answer to a version of a resource. `error` is "" if Envoy accepted it."""

    version: str
    error: str


class Catalog:
    """All resources, and Envoy's last answer to each.

    `key` is secret, or accounts could choose names with digests that cancel each other out.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.is_complete = True  # until then, what only Envoy has is not removed
        self.answers: dict[Name, Answer] = {}
        self._parts: dict[Name, Parts] = {}

    def apply(self, changes: Changes) -> list[Name]:
        """Apply changes. Return the names of the resources that are different now."""
        before = {name: self._digest(name) for name in (Name(key.kind, key.name) for key in changes)}
        for key, resource in changes.items():
            parts = self._parts.setdefault(Name(key.kind, key.name), Parts())
            if resource is None:
                parts.drop(key.part)
            else:
                parts.put(key.part, self._sign(encode(resource)))
        for name in before:
            self._drop_if_partial(name)
        return [name for name, digest in before.items() if digest != self._digest(name)]

    def restore(self, name: Name, value: bytes | None) -> None:
        """Replace a resource with an earlier encoding of it, or remove it."""
        parts = self._parts[name] = Parts()
        if value is not None:
            parts.put("", self._sign(value))
        self._drop_if_partial(name)

    def version(self, name: Name) -> str | None:
        """Return the version of a resource, or None if it does not exist.

        The same content has the same version after a restart, so that Envoy keeps what it has.
        """
        digest = self._digest(name)
        return None if digest is None else f"{digest:032x}"

    def value(self, name: Name) -> bytes:
        """Return the encoding of a resource. Raises KeyError if it does not exist."""
        return self._parts[name].joined()

    def find_value(self, name: Name) -> bytes | None:
        """Return the encoding of a resource, or None if it does not exist."""
        return self._parts[name].joined() if name in self._parts else None

    def names(self, kind: Kind) -> Iterable[Name]:
        """Return the names of all resources of a kind."""
        return [name for name in self._parts if name.kind == kind]

    def current_answer(self, name: Name) -> Answer | None:
        """Return Envoy's answer to the current version of a resource, or None."""
        answer = self.answers.get(name)
        return answer if answer and answer.version == self.version(name) else None

    def refusal(self, name: Name) -> str:
        """Return Envoy's error about the current version of a resource, or ""."""
        answer = self.current_answer(name)
        return answer.error if answer else ""

    def _sign(self, value: bytes) -> Encoded:
        digest = hashlib.blake2b(value, digest_size=16, key=self._key).digest()
        return Encoded(int.from_bytes(digest), value)

    def _digest(self, name: Name) -> int | None:
        parts = self._parts.get(name)
        return parts.digest if parts else None

    def _drop_if_partial(self, name: Name) -> None:
        """Remove a resource without its main part."""
        if not self._parts[name].is_whole:
            del self._parts[name]
            self.answers.pop(name, None)


def encode(resource: Resource) -> bytes:
    """Encode a resource or a part. Raises json_format.ParseError for invalid content.

    A listener's address is encoded separately, since its port is a number and cannot be a placeholder.
    """
    kind, body = resource.key.kind, resource.content
    if isinstance(body, Form):
        return _encode_form(kind, body)
    if kind != "listener" or not isinstance(body, Mapping) or "address" not in body:
        return _encode_with_words(kind, json.dumps(body), resource.words)
    rest = {name: value for name, value in body.items() if name != "address"}
    address = _serialize.__wrapped__(kind, json.dumps({"address": body["address"]}))
    return _encode_with_words(kind, json.dumps(rest), resource.words) + address


def _encode_form(kind: Kind, form: Form) -> bytes:
    """Encode a form with placeholders of equal length, and insert its words."""
    blanks = _make_blanks(form.words)
    if len(blanks) < len(form.words) or _FILL in "".join(form.words):
        return _serialize.__wrapped__(kind, json.dumps(form.body()))
    return _fill_blanks(_serialize_form(kind, replace(form, words=tuple(blank for _, blank in blanks))), blanks)


@functools.lru_cache(1024)
def _serialize_form(kind: Kind, form: Form) -> bytes:
    return _serialize.__wrapped__(kind, json.dumps(form.body()))


def _fill_blanks(value: bytes, blanks: Sequence[tuple[str, str]]) -> bytes:
    for word, blank in blanks:
        value = value.replace(blank.encode(), word.encode())
    return value


def _encode_with_words(kind: Kind, text: str, words: Sequence[str]) -> bytes:
    """Encode a text with placeholders of equal length, and insert the words."""
    blanks = _make_blanks(words)
    if _as_json(_FILL) in text or (kind == "listener" and len(text) > _LARGE):
        return _serialize.__wrapped__(kind, text)
    blanked = text
    for word, blank in blanks:
        blanked = blanked.replace(_as_json(word), blank)
    try:
        value = _serialize(kind, blanked)
    except json_format.ParseError:  # a placeholder is not valid there, for example in a pattern
        return _serialize.__wrapped__(kind, text)
    return _fill_blanks(value, blanks)


def _make_blanks(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return a placeholder for each word, at most one for each letter."""
    several = zip((word for word in words if len(word) > 1), ascii_uppercase, strict=False)
    return [(word, letter + _FILL * (len(word.encode()) - 1)) for word, letter in several]


def _as_json(word: str) -> str:
    return json.dumps(word)[1:-1]


@functools.lru_cache(1024)
def _serialize(kind: Kind, text: str) -> bytes:
    return bytes(json_format.Parse(text, MESSAGES[kind]()).SerializeToString(deterministic=True))
