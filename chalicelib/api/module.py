"""A module: a part of an edge or route that is replaced, read and deleted by itself (SPEC 2.9, 4.8).

Without strict references it may be put on an edge that this account has not registered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from chalicelib.api import fields, links, references, room
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call, Endpoint
from chalicelib.api.errors import Conflict, NotFound, Refusal
from chalicelib.api.fields import Shape
from chalicelib.api.references import References
from chalicelib.api.rules import if_null
from chalicelib.storage import parts, table
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Pointer


class Enabled(Shape):
    """The field that every module has."""

    enabled: Annotated[bool, if_null(True)] = True
    """True applies the module to traffic, false disables it."""


def _as_asked(asked: Shape, _caller: Caller, _holder: str) -> dict[str, Any]:
    return fields.values(asked)


def _as_kept(kept: dict[str, Any], _item: Item, _call: Call) -> dict[str, Any]:
    return kept


def _none(_kept: dict[str, Any]) -> References:
    return {}


@dataclass(frozen=True, kw_only=True)
class Module:
    """Its path, the shape of its request, and where they differ: how it is kept, shown, and what it names.

    `keep` makes what is stored of what was asked, for the holder of that id; `show` makes the response of what is
    stored and the edge or route that holds it; `points` tells the ids that each field of what is stored names.
    `shows` is the shape of its response, where that is another; `refuses` what a PUT may answer beside what all may.
    """

    path: str
    shape: type[Enabled]
    shows: type[Shape] | None = None
    refuses: tuple[type[Refusal], ...] = ()
    keep: Callable[[Any, Caller, str], dict[str, Any]] = _as_asked
    show: Callable[[dict[str, Any], Item, Call], dict[str, Any]] = _as_kept
    points: Callable[[dict[str, Any]], References] = _none

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def home(self) -> str:
        """The path of the edge or route that holds it."""
        return self.path.rpartition("/")[0]

    @property
    def shown(self) -> type[Shape]:
        """The shape of its response."""
        return self.shows or self.shape

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("PUT", self.path, 200, self.put, body=self.shape, shows=self.shown, refuses=self.refuses),
            Endpoint("GET", self.path, 200, self.get, shows=self.shown),
            Endpoint("DELETE", self.path, 204, self.delete),
        )

    def put(self, call: Call) -> dict[str, Any]:
        scope = self.scope(call)
        kept = self.keep(call.body, call.caller, call.id)
        if references.are_strict():
            points = {self.name: self.pointers(call.caller, kept)}
            item = table.rewrite(scope, call.id, {}, parts={self.name: kept}, points=points)
        else:
            item = parts.put(scope, call.id, self.name, kept)
        if item is None:
            raise NotFound(f"There is no edge or route {call.id} in this account.")
        return self.show(kept, item, call)  # not the stored one, which another may have taken away by now

    def get(self, call: Call) -> dict[str, Any]:
        item = table.read_parts(self.scope(call), call.id)
        if item is None or self.name not in item.parts:
            raise self._unset()
        return self.show(item.parts[self.name], item, call)

    def delete(self, call: Call) -> None:
        scope = self.scope(call)
        if not parts.drop(scope, call.id, self.name):
            raise self._unset()

    def pointers(self, caller: Caller, kept: dict[str, Any], *, at: str = "") -> tuple[Pointer, ...]:
        """What the module points at, where references are strict; `at` is the path of the module in the body."""
        named = {f"{at}{field}": ids for field, ids in self.points(kept).items()}
        return references.pointers(caller, named, part=self.name)

    def scope(self, call: Call) -> str:
        """Where the caller's account keeps the edge or route. Raises NotFound."""
        links.check(self.path, call.path)
        return call.caller.scope(self.home.rpartition("/")[0].format(**call.path))

    def _unset(self) -> NotFound:
        return NotFound(f"The module {self.name} is not set there.")


@dataclass(frozen=True, kw_only=True)
class RouteModule(Module):
    """A module of routes, which their edge shows whole."""

    refuses: tuple[type[Refusal], ...] = (Conflict,)

    def put(self, call: Call) -> dict[str, Any]:
        """As any other, after a look at the room that the edge's routes take."""
        room.check(self.scope(call), call.id, {self.name: fields.values(call.body)})
        return super().put(call)
