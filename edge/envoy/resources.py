"""Encoded resources of Envoy, which Envoy accepts or rejects one by one. This file does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from edge.envoy import v3

Changes: TypeAlias = "Mapping[Key, Resource | None]"  # new resources by key. None removes a resource
NAME_PREFIX = "name/"  # the prefix of clusters that Envoy selects by server name. Visitors cannot select other clusters
PORT_PREFIX = "port/"  # the prefix of listeners on TCP ports, which visitors reach directly
BLOCKED_PART = "blocked"  # the part of a listener that refuses blocked networks
Kind = Literal["cluster", "extension", "listener", "routes", "scope", "secret"]


Message: TypeAlias = (
    v3.Cluster | v3.TypedExtensionConfig | v3.Listener | v3.RouteConfiguration | v3.ScopedRouteConfiguration | v3.Secret
)
MESSAGES: Mapping[Kind, type[Message]] = {
    "cluster": v3.Cluster,
    "extension": v3.TypedExtensionConfig,
    "listener": v3.Listener,
    "routes": v3.RouteConfiguration,
    "scope": v3.ScopedRouteConfiguration,
    "secret": v3.Secret,
}
_KINDS = {message: kind for kind, message in MESSAGES.items()}


class Key(NamedTuple):
    """The kind and name of a resource, or of a part of it. Large resources have parts that change separately."""

    kind: Kind
    name: str
    part: str = ""


@dataclass(frozen=True)
class Resource:
    """An encoded resource, or a part of one. A part is a message with only some fields.

    The parts of a resource are joined for Envoy. `is_emptied` marks a cluster that loses its last endpoint. Such a
    cluster is sent after the routes, so that routes can first change to other clusters.
    """

    key: Key
    encoded: bytes = field(repr=False)
    is_emptied: bool = field(default=False, repr=False, compare=False)


def encode(message: Message) -> Resource:
    """Encode a message as a resource."""
    return encode_part(Key(_KINDS[type(message)], message.name), message)


def encode_part(key: Key, message: Message) -> Resource:
    """Return a message with only some fields as a part of a resource."""
    return Resource(key, message.SerializeToString(deterministic=True))


def split_stages(changes: Changes) -> tuple[Changes, Changes, Changes]:
    """Split changes into three steps: additions, then resources that send visitors to the added ones, then removals.

    Parts that refuse visitors are added in the first step and removed in the last one.
    """

    def stage(key: Key, resource: Resource | None) -> int:
        if (not resource and _is_whole_or_refuses(key.part)) or (resource and resource.is_emptied):
            return 2
        return 1 if _brings_visitors(key) else 0

    staged: tuple[dict[Key, Resource | None], ...] = ({}, {}, {})
    for key, resource in changes.items():
        staged[stage(key, resource)][key] = resource
    return staged[0], staged[1], staged[2]


def _brings_visitors(key: Key) -> bool:
    """Return whether Envoy sends visitors to other resources through this resource.

    Return true for matcher parts, listeners of TCP ports, and clusters that Envoy selects by server name.
    """
    prefix = {"cluster": NAME_PREFIX, "listener": PORT_PREFIX}.get(key.kind)
    return not _is_whole_or_refuses(key.part) or bool(prefix and key.name.startswith(prefix))


def _is_whole_or_refuses(part: str) -> bool:
    """Return whether a part is the whole resource, or the listener's part that refuses blocked networks."""
    return part in ("", BLOCKED_PART)
