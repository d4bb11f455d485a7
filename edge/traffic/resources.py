"""A resource of Envoy: what its protocol of discovery changes, accepts and refuses by name. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | float | bool"
Changes: TypeAlias = "Mapping[Key, Resource | None]"  # None: it is gone
Kind = Literal["cluster", "listener", "routes", "secret"]


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
    """Return changes in the order in which they may be made: what is new, then what leads to it, then what goes."""
    new = {key: it for key, it in changes.items() if it and not key.part}
    leading = {key: it for key, it in changes.items() if key.part}
    gone = {key: it for key, it in changes.items() if not it and not key.part}
    return new, leading, gone
