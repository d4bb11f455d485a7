"""Edges and routes: where they listen, and what their modules make of traffic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import ClassVar, Literal

from chalicelib import domains
from chalicelib.model import changes, kinds, names, proofs, reservations, tunnels
from chalicelib.model.audit import Trail
from chalicelib.model.changes import Change
from chalicelib.model.modules import EDGE, TlsEnd
from chalicelib.model.records import Described
from chalicelib.storage import aws, items, table, writes
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.items import Item
from chalicelib.storage.references import InUse
from chalicelib.storage.unique_keys import UniqueKey

_TRIES = 3  # at an edge that gains routes while it is deleted
_NO_ROUTES: tuple[str, Iterator[Item]] = ("", iter(()))


@dataclass(frozen=True, kw_only=True)
class Edge(Described):
    """The stored form of an edge, which listens on hostports, as host:port."""

    hostports: list[str] = field(default_factory=list)

    AUDITED: ClassVar[tuple[str, ...]] = ("hostports",)

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return a key for each hostport, which leads to the edge and is unique in its account, and those of its names.

        Of another account's hostport that is not below TUNNEL_DOMAIN, proof decides: both may have it here.
        """
        named, edge = enumerate(self.hostports), {"account": account, "id": id}
        found = (
            replace(names.listening_key(account, it), attributes=edge, field=f"hostports.{place}")
            for place, it in named
        )
        return (*found, *names.list_keys(kinds.of(id), self.hostports))

    def former_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the keys of hostports that edges of the second edition held, unique between all accounts."""
        return tuple(UniqueKey(names.HOSTPORTS, hostport) for hostport in self.hostports)


@dataclass(frozen=True, kw_only=True)
class HttpsEdge(Edge):
    """The stored form of an HTTPS edge, which may let TLS end upstream."""

    terminate_at: TlsEnd = EDGE
    keep_headers: list[str] = field(default_factory=list)

    AUDITED = ("hostports", "terminate_at", "keep_headers")


@dataclass(frozen=True, kw_only=True)
class Route(Described):
    """The stored form of a route: the requests to its edge that a path selects."""

    match_type: Literal["exact_path", "path_prefix"]
    match: str
    edge_id: str = ""

    AUDITED = ("match_type", "match")

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the key of its edge, match type and path."""
        edge = f"{items.scope(account, kinds.HTTPS_EDGES.path)}/{self.edge_id}"
        return (UniqueKey("match", f"{edge}#{self.match_type}#{self.match}"),)


def routes_scope(scope: str, id: str) -> str:
    """Return the storage scope of an edge's routes, given the edge's own scope and id."""
    return f"{scope}/{id}/routes"


def read_with_routes(account: str, id: str) -> tuple[Item, list[Item]] | None:
    """Return an edge of an account and its routes, newest first, of HTTPS alone; None where there is none.

    Malformed ones are included. What is sealed in the routes is left out. Raises aws.Unavailable.
    """
    kind = kinds.of(id)
    edge = table.find_any(items.scope(account, kind.path), id)
    if edge is None or (edge.modules and not edge.body):  # of which only modules were ever set
        return None
    return edge, next(read_routes([edge])) if kind is kinds.HTTPS_EDGES else []


def read_routes(found: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the routes of each of some HTTPS edges of an account, the newest edges first, as the routes are.

    They are read when it is an edge's turn, of many edges at once, 1 MB each time. Raises aws.Unavailable.
    """
    scopes = [routes_scope(edge.scope, edge.id) for edge in found]
    read = groupby(table.beneath(scopes) if scopes else (), key=lambda route: route.scope)
    scope, routes = next(read, _NO_ROUTES)
    for edge, wanted in zip(found, scopes, strict=True):
        while scope > wanted:  # of an edge that is not asked for
            scope, routes = next(read, _NO_ROUTES)
        yield _add_old_routes(edge, list(routes) if scope == wanted else [])


def read_route_page(edge: Item, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return at most `count` routes of an HTTPS edge, as `table.page` does. Raises aws.Unavailable."""
    found, has_more = table.page(routes_scope(edge.scope, edge.id), before=before, count=count)
    oldest = found[-1].id if has_more else ""
    if not {id for id in _referring_routes(edge) if oldest <= id < (before or "~")} - {route.id for route in found}:
        return found, has_more
    routes = [route for route in _add_old_routes(edge, []) if route.id < (before or "~")]
    return routes[:count], len(routes) > count


def find_by_hostport(account: str, hostport: str) -> str | None:
    """Return the id of the edge of an account that listens on a hostport, or None. Raises aws.Unavailable."""
    key = names.listening_key(account, hostport)
    found = table.look_up(key.kind, key.value)
    return str(found["id"]) if found else None


def list_hostports(name: str) -> list[str]:
    """Return the hostports that stand for a host at port 443, with those of wildcards above it, or for host:port."""
    return [name] if ":" in name else [f"{host}:443" for host in proofs.list_proving_domains(name)]


def find_by_name(name: str, tunnel_domain: str) -> Item | None:
    """Return the edge that listens on a host at port 443, or on host:port, of whoever has the name; None without one.

    Raises aws.Unavailable.
    """
    host = name.partition(":")[0]
    if domains.is_below(host, tunnel_domain):
        account = names.find_account(name, tunnel_domain)
    else:
        held = reservations.find_proving(host, tunnel_domain)
        account = held.account if held else ""
    found = (find_by_hostport(account, hostport) for hostport in list_hostports(name)) if account else ()
    id = next(filter(None, found), None)
    return table.find(items.scope(account, kinds.of(id).path), id) if id else None


def close_tunnels(account: str, hostports: Sequence[str], *, by: Trail) -> None:
    """End the tunnels of an account on hosts and ports that its edges have taken. Raises aws.Unavailable."""
    hosts = {hostport.rpartition(":")[0] for hostport in hostports}
    ports = {hostport for hostport in hostports if hostport.rpartition(":")[0] == names.domain()}
    for name in sorted(ports.union(filter(names.can_name_tunnel, hosts))):
        found = table.look_up(names.KIND, name)
        if found and found.get("account") == account:
            tunnels.close_tunnel(account, found["id"], by=by)


def delete_https_edge(change: Change, scope: str, id: str) -> bool:
    """Remove an HTTPS edge with its routes; False when there is none. Can be repeated after a crash.

    It gives up its hostports first, so that it never serves a request without its modules. That, and the deletion of
    each route, have audit events of their own. Raises what the change's `check` does; aws.Unavailable.
    """

    def silenced(edge: Item) -> Item:
        return replace(edge, body={**edge.body, "hostports": []}, unique_keys=())

    try:
        if not changes.rewrite(change, scope, id, silenced):
            return False
    except MalformedRecord:
        pass  # it serves nobody
    for _ in range(_TRIES):
        for route in table.every(routes_scope(scope, id)):
            _delete_route(Change(change.by), route)
        try:
            return changes.delete(Change(change.by), scope, id)
        except InUse:
            continue
    raise aws.Unavailable("TransactionConflict")


def _add_old_routes(edge: Item, found: list[Item]) -> list[Item]:
    """Return the routes of an edge with those that lie where the second edition put them.

    They are looked for where the edge names a route that was not found. Raises aws.Unavailable.
    """
    missing = _referring_routes(edge) - {route.id for route in found}
    if not missing:
        return found
    scope = routes_scope(edge.scope, edge.id)
    former = table.of_second_edition(scope)
    if missing - {route.id for route in former}:
        found = list(table.beneath([scope]))  # those that were moved meanwhile
    routes = {route.id: route for route in (*former, *found)}
    return sorted(routes.values(), key=lambda route: route.id, reverse=True)


def _referring_routes(edge: Item) -> set[str]:
    """Return the ids of the routes that name an edge."""
    beneath = f"{routes_scope(edge.path, edge.id)}/"
    return {path.removeprefix(beneath) for path in edge.referrers if path.startswith(beneath)}


def _delete_route(change: Change, route: Item) -> None:
    """Remove a route, also one of which only modules were ever set."""
    if not route.malformed and not (route.body and route.is_live):
        table.drop(route)
        return
    try:
        change.remove(route).commit()
    except writes.Overtaken:
        changes.delete(change, route.scope, route.id)
