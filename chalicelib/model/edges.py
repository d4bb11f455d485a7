"""Edges and routes: where they listen, and what their modules make of traffic."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from chalicelib.model import changes, kinds, names, tunnels
from chalicelib.model.audit import Trail
from chalicelib.model.changes import Change
from chalicelib.model.modules import EDGE
from chalicelib.model.records import Described
from chalicelib.storage import aws, items, table, writes
from chalicelib.storage.items import Item
from chalicelib.storage.references import InUse
from chalicelib.storage.unique_keys import UniqueKey

_TRIES = 3  # at an edge that gains routes while it is deleted
_KIND = "hostports"


@dataclass(frozen=True, kw_only=True)
class Edge(Described):
    """The stored form of an edge, which listens on hostports, as host:port."""

    hostports: list[str] = field(default_factory=list)

    TOLD: ClassVar[tuple[str, ...]] = ("hostports",)

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return a key for each hostport, which leads to the edge and is unique in its account, and those of its names.

        Of another account's hostport that is not below TUNNEL_DOMAIN, proof decides: both may have it here.
        """
        named, edge = enumerate(self.hostports), {"account": account, "id": id}
        found = (UniqueKey(_KIND, _value(account, it), edge, field=f"hostports.{place}") for place, it in named)
        return (*found, *names.keys_of(self.hostports, by_port=kinds.of(id) is kinds.TCP_EDGES))

    def former_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the keys of hostports that edges of the second edition held, unique between all accounts."""
        return tuple(UniqueKey(_KIND, hostport) for hostport in self.hostports)


@dataclass(frozen=True, kw_only=True)
class HttpsEdge(Edge):
    """The stored form of an HTTPS edge, which may let TLS end upstream."""

    terminate_at: str = EDGE

    TOLD = ("hostports", "terminate_at")


@dataclass(frozen=True, kw_only=True)
class Route(Described):
    """The stored form of a route: the requests to its edge that a path selects."""

    match_type: str
    match: str
    edge_id: str = ""

    TOLD = ("match_type", "match")

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the key of its edge, match type and path."""
        edge = f"{items.scope(account, kinds.HTTPS_EDGES.path)}/{self.edge_id}"
        return (UniqueKey("match", f"{edge}#{self.match_type}#{self.match}"),)


def routes_scope(scope: str, id: str) -> str:
    """Return the storage scope of an edge's routes, given the edge's own scope and id."""
    return f"{scope}/{id}/routes"


def find_by_hostport(account: str, hostport: str) -> str | None:
    """Return the id of the edge of an account that listens on a hostport, or None. Raises aws.Unavailable."""
    found = table.look_up(_KIND, _value(account, hostport))
    return str(found["id"]) if found else None


def end_tunnels(account: str, hostports: Sequence[str], *, by: Trail) -> None:
    """End the tunnels of an account on hosts that its edges have taken. Raises aws.Unavailable."""
    for host in sorted({hostport.rpartition(":")[0] for hostport in hostports}):
        if names.unit(host) == host and (found := table.look_up(names.KIND, host)) and found.get("account") == account:
            tunnels.close_tunnel(account, found["id"], by=by)


def delete_https_edge(change: Change, scope: str, id: str) -> bool:
    """Remove an HTTPS edge with its routes; False when there is none. Can be repeated after a crash.

    It gives up its hostports first, so that it never serves a request without its modules. That, and the deletion of
    each route, have audit events of their own. Raises what the change's `check` does; aws.Unavailable.
    """

    def silenced(edge: Item) -> Item:
        return replace(edge, body={**edge.body, "hostports": []}, unique_keys=())

    if not changes.rewrite(change, scope, id, silenced):
        return False
    for _ in range(_TRIES):
        for route in table.every(routes_scope(scope, id)):
            _delete_route(Change(change.by), route)
        try:
            return changes.delete(Change(change.by), scope, id)
        except InUse:
            continue
    raise aws.Unavailable("TransactionConflict")


def _value(account: str, hostport: str) -> str:
    return f"{account}/{hostport}"


def _delete_route(change: Change, route: Item) -> None:
    """Remove a route, also one of which only modules were ever set."""
    if not (route.body and route.is_live):
        table.drop(route.scope, route.id)
        return
    try:
        change.remove(route).commit()
    except writes.Overtaken:
        changes.delete(change, route.scope, route.id)
