"""HTTPS edges: what answers HTTPS requests to their hostports, by routes. Deleting one deletes its routes first."""

from typing import Annotated, Any

from chalicelib import modules
from chalicelib.api import fields
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict
from chalicelib.api.fields import Described, Shown
from chalicelib.api.modular import ModularResource, make, showing_modules, with_modules
from chalicelib.api.resource import New
from chalicelib.api.rules import Unchanged, if_empty
from chalicelib.edges import hostports
from chalicelib.edges.hostports import HostportsOn443
from chalicelib.edges.routes import ROUTES
from chalicelib.modules import tls_termination
from chalicelib.modules.tls_termination import Place, TlsTermination
from chalicelib.storage import aws, parts, table
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Held

_TRIES = 3  # at an edge that gains routes while it is deleted


class Edge(Described):
    hostports: HostportsOn443 = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""

    terminate_at: Annotated[Place, if_empty(tls_termination.EDGE)] = tls_termination.EDGE
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server."""


class Change(Edge):
    # Where TLS ends does not move because a client sends every field it knows.
    terminate_at: Annotated[Place, Unchanged((None, ""))] = tls_termination.EDGE


class HTTPSEdge(Edge, Shown):
    """Answers HTTPS requests to its hostports, by routes."""

    routes: list[ROUTES.shows]  # type: ignore[name-defined]
    """Its routes, newest first: at most 100, of 5 million characters together.

    A character counts as it is on its way, in the JSON of the answer, which stands in JSON once more.
    """


class _HttpsEdges(ModularResource):
    def new(self, call: Call, id: str) -> New:
        _check(call.body.tls_termination, call.body.terminate_at)
        return super().new(call, id)

    def changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        if fields.keys() & {"tls_termination", "terminate_at"}:
            before = self.found(table.read(self.scope(call), self.id_in(call)))
            asked = call.body.tls_termination if "tls_termination" in fields else _kept(before)
            _check(asked, fields.get("terminate_at", before.body["terminate_at"]))
        return super().changed(call, fields)

    def shown(self, item: Item, call: Call) -> dict[str, Any]:
        routes = table.newest(_routes(item.scope, item.id))
        return {**super().shown(item, call), "routes": [ROUTES.shown(route, call) for route in routes]}

    def delete(self, call: Call) -> None:
        """Take the edge off its hostports, so that it is never live without a protection; then routes, then edge."""
        scope, id = self.scope(call), self.id_in(call)
        self.found(table.rewrite(scope, id, {"hostports": []}, claims=lambda body: ()))
        for _ in range(_TRIES):
            parts.sweep(_routes(scope, id))
            try:
                is_deleted = table.delete(scope, id)
            except Held:
                continue
            if not is_deleted:  # but by another meanwhile
                raise self.missing()
            return
        raise aws.Unavailable("TransactionConflict")


def _kept(edge: Item) -> TlsTermination | None:
    kept = edge.parts.get("tls_termination")
    return fields.check(TlsTermination, kept)[0] if kept else None


def _check(asked: TlsTermination | None, terminate_at: str) -> None:
    if asked:
        tls_termination.check(asked, terminate_at, at="tls_termination.")


def _routes(scope: str, id: str) -> str:
    """Where the routes of an edge are kept."""
    return f"{scope}/{id}/routes"


_MODULES = modules.at("/edges/https/{edge_id}")

HTTPS_EDGES = _HttpsEdges(
    prefix="edghts",
    path="/edges/https",
    items="https_edges",
    variable="edge_id",
    create=with_modules(Edge, _MODULES),
    change=with_modules(Change, _MODULES),
    shows=showing_modules(HTTPSEdge, _MODULES),
    make=make,
    refuses={"POST": (Conflict,), "PATCH": (Conflict,)},
    modules=_MODULES,
    claims=hostports.claims,
)
