"""Routes of HTTPS edges: the requests that a path selects, and the modules they pass through.

A route points at its edge always, strict references or not: the edge cannot go before its routes.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal

from chalicelib import modules
from chalicelib.api import fields, links, room
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict, NotFound
from chalicelib.api.fields import Described, Shown
from chalicelib.api.modular import ModularResource, make, showing_modules, with_modules
from chalicelib.api.resource import New
from chalicelib.api.rules import form, max_bytes
from chalicelib.storage import table
from chalicelib.storage.claims import Claim
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Dangling, Pointer

_EDGES = "/edges/https"
MOST = 100  # routes of an edge, which shows them whole

MatchType = Literal["exact_path", "path_prefix"]
Match = Annotated[str, form(r"/[!-~]*", "must be a path: it starts with a slash and holds no space"), max_bytes(1024)]


class Create(Described):
    match_type: MatchType
    """How `match` selects requests."""

    match: Match
    """A path, visible ASCII, at most 1024 bytes; unique in the edge with its match_type."""


class Change(Create):
    match_type: MatchType = "path_prefix"
    match: Match = "/"


class HTTPSEdgeRoute(Create, Shown):
    """Requests to an HTTPS edge that a path selects, and the modules they pass through."""

    edge_id: str
    """The HTTPS edge that it belongs to."""


class _Routes(ModularResource):
    def list_page(self, call: Call) -> str:
        self._edge(call)
        return super().list_page(call)

    def post(self, call: Call) -> dict[str, Any]:
        """As any other; an edge that goes meanwhile is not found, as it stands in the path."""
        try:
            return super().post(call)
        except Dangling as dangling:
            if dangling.pointer.id != call.path["edge_id"]:
                raise
            raise self._no_edge() from None

    def new(self, call: Call, id: str) -> New:
        edge_id = call.path["edge_id"]
        if len(self._edge(call).pointed_by) >= MOST:
            raise Conflict(f"The edge has {MOST} routes already, which is the most.")
        room.check(self.scope(call), id, fields.values(call.body), is_new=True)
        new = super().new(call, id)
        edge = Pointer("", call.caller.scope(_EDGES), edge_id, "edge_id")
        return replace(new, body={**new.body, "edge_id": edge_id}, points=(*new.points, edge))

    def changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        """As any other, after a look at the room that the edge's routes take."""
        if fields:
            room.check(self.scope(call), self.id_in(call), fields)
        return super().changed(call, fields)

    def _edge(self, call: Call) -> Item:
        links.check(self.path, call.path)
        edge = table.read(call.caller.scope(_EDGES), call.path["edge_id"])
        if edge is None:
            raise self._no_edge()
        return edge

    def _no_edge(self) -> NotFound:
        return NotFound("There is no such edge in this account.")


def _claims(body: dict[str, Any], call: Call) -> tuple[Claim, ...]:
    place = f"{call.caller.scope(_EDGES)}/{call.path['edge_id']}"
    return (Claim("match", f"{place}#{body['match_type']}#{body['match']}"),)


_MODULES = modules.at("/edges/https/{edge_id}/routes/{id}")

ROUTES = _Routes(
    prefix="edghtsrt",
    path="/edges/https/{edge_id}/routes",
    items="routes",
    create=with_modules(Create, _MODULES),
    change=with_modules(Change, _MODULES),
    shows=showing_modules(HTTPSEdgeRoute, _MODULES),
    make=make,
    refuses={"POST": (Conflict,), "PATCH": (Conflict,)},
    modules=_MODULES,
    claims=_claims,
)
