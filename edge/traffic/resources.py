"""A resource of Envoy: what its protocol of discovery changes, accepts and refuses by name. Pure."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | bool"
Changes: TypeAlias = "Mapping[Key, Resource | None]"  # None: it is gone
NAME_PREFIX = "name/"  # of the upstreams that a visitor's server name leads to: it must be able to name no other
PORT_PREFIX = "port/"  # of the listeners of ports, by which visitors come at once
BLOCKED_PART = "blocked"  # of a listener: the networks that it refuses
Kind = Literal["cluster", "extension", "listener", "routes", "secret"]


class Key(NamedTuple):
    """The name of a resource. A large one is put together of parts, so that a part can change by itself."""

    kind: Kind
    name: str
    part: str = ""


@dataclass(frozen=True)
class Form:
    """A body that a function makes of some words, and of what is `given` to all of its kind.

    What is encoded for one serves for all whose words are as long, so that it is not even made for these.
    """

    make: Callable[..., Json]
    words: tuple[str, ...] = field(repr=False)
    arguments: tuple[Hashable, ...] = ()

    def body(self) -> Json:
        return self.make(*self.words, *self.arguments)


@dataclass(frozen=True)
class Resource:
    """A resource, or a part of one: the same message, with only that in it which is its own.

    `words` stand in it where others of its kind have other words: what is encoded for one serves for all. A Form says
    its own. An upstream that is `emptied` loses its last endpoint, after the routes that lead elsewhere.
    """

    key: Key
    content: "Json | Form" = field(repr=False)
    words: tuple[str, ...] = field(default=(), repr=False, compare=False)
    is_emptied: bool = field(default=False, repr=False, compare=False)

    @property
    def body(self) -> Json:
        return self.content.body() if isinstance(self.content, Form) else self.content


def split_stages(changes: Changes) -> tuple[Changes, Changes, Changes]:
    """Return changes in the order in which they may be made: what is new, then what leads to it, then what goes.

    A name that gets a part of a listener has its route with the operator's until visitors come by that part; one that
    loses it has its route there before they come.
    """
    parts = {key.part: it for key, it in changes.items() if key.kind == "listener" and key.part}

    def stage(key: Key, it: Resource | None) -> int:
        if key.kind == "routes" and key.part in parts:
            return 2 if parts[key.part] else 0 if it else 1
        if (not it and key.part in ("", BLOCKED_PART)) or (it and it.is_emptied):
            return 2
        return 1 if _brings_visitors(key) else 0

    staged: tuple[dict[Key, Resource | None], ...] = ({}, {}, {})
    for key, it in changes.items():
        staged[stage(key, it)][key] = it
    return staged[0], staged[1], staged[2]


def _brings_visitors(key: Key) -> bool:
    """Tell whether visitors come by it to others: by a part of a listener or of routes, a port, or the upstream of a
    name.
    """
    prefix = {"cluster": NAME_PREFIX, "listener": PORT_PREFIX}.get(key.kind)
    return key.part not in ("", BLOCKED_PART) or bool(prefix and key.name.startswith(prefix))
