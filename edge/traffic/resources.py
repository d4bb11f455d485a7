"""A resource of Envoy: what its protocol of discovery changes, accepts and refuses by name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | bool"
Changes: TypeAlias = "Mapping[Key, Resource | None]"  # None: it is gone
NAME_PREFIX = "name/"  # of the upstreams that a visitor's server name leads to: it must be able to name no other
Kind = Literal["cluster", "extension", "listener", "routes", "secret"]


class Key(NamedTuple):
    """The name of a resource. A large one is put together of parts, so that a part can change by itself."""

    kind: Kind
    name: str
    part: str = ""


@dataclass(frozen=True)
class Resource:
    """A resource, or a part of one: the same message, with only that in it which is its own.

    `words` stand in it where others of its kind have other words: what is encoded for one serves for all.
    """

    key: Key
    body: Json = field(repr=False)
    words: tuple[str, ...] = field(default=(), repr=False, compare=False)


def stages(changes: Changes) -> tuple[Changes, Changes, Changes]:
    """Return changes in the order in which they may be made: what is new, then what leads to it, then what goes.

    Where a name loses its part of a listener, visitors come to others, whose routes have to know it before.
    """
    moving = {key.part for key, it in changes.items() if key.kind == "listener" and key.part and not it}
    is_first = {key: not _leads(key) or (key.kind == "routes" and key.part in moving) for key in changes}
    new = {key: it for key, it in changes.items() if it and is_first[key]}
    gone = {key: it for key, it in changes.items() if not it and not key.part}
    leading = {key: it for key, it in changes.items() if key not in new and key not in gone}
    return new, leading, gone


def _leads(key: Key) -> bool:
    """Tell whether visitors come by it to others: by a part of a listener or of routes, or the upstream of a name."""
    return bool(key.part) or (key.kind == "cluster" and key.name.startswith(NAME_PREFIX))
