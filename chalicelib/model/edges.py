"""Edges and routes in their stored form: where they listen, and the modules that say what happens to traffic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.model import kinds, modules
from chalicelib.model.audit import Trail
from chalicelib.model.modules import EDGE, Module
from chalicelib.storage import aws, items, table
from chalicelib.storage import modules as stored
from chalicelib.storage.items import Item
from chalicelib.storage.references import InUse
from chalicelib.storage.unique_keys import UniqueKey

_TRIES = 3  # at an edge that gains routes while it is deleted


@dataclass(frozen=True)
class Route:
    """Requests that a path selects, and the modules they pass through, by name."""

    id: str
    match_type: str
    match: str
    modules: Mapping[str, Module]


@dataclass(frozen=True)
class Edge:
    """An edge of any kind: its modules by name, and of an HTTPS edge where TLS ends and its routes, newest first."""

    account: str
    id: str
    hostports: tuple[str, ...]
    modules: Mapping[str, Module]
    terminate_at: str = EDGE
    routes: tuple[Route, ...] = ()


def read(account: str, id: str) -> Edge | None:
    """Return an edge with its routes, or None when the account has none of that id. Raises aws.Unavailable."""
    kind = kinds.of(id)
    item = table.read(items.scope(account, kind.path), id)
    if item is None:
        return None
    routes = tuple(route_of(route) for route in table.newest(routes_scope(item.scope, id))) if has_routes(kind) else ()
    return replace(edge_of(item), routes=routes)


def edge_of(item: Item) -> Edge:
    """Return the edge that an item holds, without its routes. Raises aws.Unavailable."""
    terminate_at = item.body.get("terminate_at", EDGE)
    return Edge(item.account, item.id, tuple(item.body["hostports"]), modules_of(item), terminate_at)


def route_of(item: Item) -> Route:
    """Return the route that an item holds. Raises aws.Unavailable."""
    return Route(item.id, item.body["match_type"], item.body["match"], modules_of(item))


def modules_of(item: Item) -> dict[str, Module]:
    """Return the modules of an edge or route, by name. Raises aws.Unavailable where one holds a secret."""
    return {
        name: modules.TYPES[name].from_record(record, item.account, item.id) for name, record in item.modules.items()
    }


def has_routes(kind: kinds.Kind) -> bool:
    """Tell whether edges of that kind have routes."""
    return kind is kinds.HTTPS_EDGES


def routes_scope(scope: str, id: str) -> str:
    """Return the storage scope of an edge's routes, given the edge's own scope and id."""
    return f"{scope}/{id}/routes"


def hostport_keys(account: str, id: str, body: Mapping[str, Any]) -> tuple[UniqueKey, ...]:
    """Return the unique keys of an edge: its hostports, each of which leads to the edge."""
    named, edge = enumerate(body["hostports"]), {"account": account, "id": id}
    return tuple(UniqueKey("hostports", hostport, edge, field=f"hostports.{place}") for place, hostport in named)


def find_by_hostport(hostport: str) -> tuple[str, str] | None:
    """Return the account and id of the edge that listens on a hostport, or None. Raises aws.Unavailable."""
    found = table.look_up("hostports", hostport)
    return (found["account"], found["id"]) if found else None


def match_keys(account: str, _id: str, body: Mapping[str, Any]) -> tuple[UniqueKey, ...]:
    """Return the unique key of a route: what it matches on its edge."""
    edge = f"{items.scope(account, kinds.HTTPS_EDGES.path)}/{body['edge_id']}"
    return (UniqueKey("match", f"{edge}#{body['match_type']}#{body['match']}"),)


def delete_https_edge(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove an HTTPS edge with its routes; False when there is none. Can be repeated after a crash.

    It gives up its hostports first, so that it never serves a request without its modules. That, and the deletion of
    each route, have audit events of their own. Raises what `check` raises of the edge; aws.Unavailable.
    """

    def leave(edge: Item) -> Item:
        check(edge)
        return replace(edge, body={**edge.body, "hostports": []}, unique_keys=())

    if not table.rewrite(scope, id, leave, also=by.telling("update")):
        return False
    for _ in range(_TRIES):
        stored.sweep(routes_scope(scope, id), also=lambda: by.telling("delete"))
        try:
            return table.delete(scope, id, also=by.telling("delete"))
        except InUse:
            continue
    raise aws.Unavailable("TransactionConflict")
