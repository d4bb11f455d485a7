"""Edges and their routes: stored types, reading and deletion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar, Literal

from chalicelib import domains
from chalicelib.model import changes
from chalicelib.model.audit.trail import Trail
from chalicelib.model.base import kinds
from chalicelib.model.base.records import Described
from chalicelib.model.changes import Change
from chalicelib.model.edges import special_edges
from chalicelib.model.edges.modules.tls_termination import EDGE, TlsEnd
from chalicelib.model.names import base_names, histories, listed_edges, name_counts, proofs, reservations
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.client import aws
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import direct_writes, items, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import InUse
from chalicelib.storage.records.unique_keys import UniqueKey

_TRIES = 3  # attempts to delete an edge; an attempt fails if another request adds a route meanwhile
_NO_ROUTES: tuple[str, Iterator[Item]] = ("", iter(()))


@dataclass(frozen=True, kw_only=True)
class Edge(Described):
    """The stored form of an edge. Its hostports are of the form host:port."""

    hostports: list[str] = field(default_factory=list)

    AUDITED: ClassVar[tuple[str, ...]] = ("hostports",)

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique keys of the hostports, their base names (one label below TUNNEL_DOMAIN) and their ports.

        A hostport is unique in the account. Outside TUNNEL_DOMAIN, edges of two accounts can have the same hostport.
        The live edge serves the edge of the account that has proved the domain.
        """
        numbered, edge = enumerate(self.hostports), {"account": account, "id": id}
        hostport_keys = (
            replace(base_names.listening_key(account, hostport), attributes=edge, field=f"hostports.{index}")
            for index, hostport in numbered
        )
        return (*hostport_keys, *base_names.list_keys(kinds.identify(id), self.hostports))

    def former_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique keys in record format 2, which allows a hostport for only one account."""
        return tuple(UniqueKey(base_names.HOSTPORTS, hostport) for hostport in self.hostports)

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        if before:
            histories.record_former_edge(before, after)
        listed = (*listed_edges.list_edge(before, after), *special_edges.list_edge(before, after))
        return (*listed, *name_counts.prepare(before, after, writes))


@dataclass(frozen=True, kw_only=True)
class HttpsEdge(Edge):
    """The stored form of an HTTPS edge. TLS ends at the edge or upstream."""

    terminate_at: TlsEnd = EDGE
    keep_headers: list[str] = field(default_factory=list)

    AUDITED = ("hostports", "terminate_at", "keep_headers")

    def audited_fields(self) -> dict[str, Any]:
        return {name: value for name, value in super().audited_fields().items() if value or name != "keep_headers"}


@dataclass(frozen=True, kw_only=True)
class Route(Described):
    """The stored form of a route. It selects requests by path."""

    match_type: Literal["exact_path", "path_prefix"]
    match: str
    edge_id: str = ""

    AUDITED = ("match_type", "match")

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique key of the route: its edge, match type and path together."""
        edge = f"{items.scope(account, kinds.HTTPS_EDGES.path)}/{self.edge_id}"
        return (UniqueKey("match", f"{edge}#{self.match_type}#{self.match}"),)

    @classmethod
    def prepare(cls, before: Item | None, after: Item | None, writes: Sequence[Write]) -> Sequence[Write]:
        return special_edges.list_route(before, after)


def routes_scope(scope: str, id: str) -> str:
    """Return the partition key `scope` of the routes of an edge."""
    return f"{scope}/{id}/routes"


def list_routes(scope: str) -> list[Item]:
    """Return the routes with the partition key `scope`, newest first. The list can be incomplete: see
    `complete_routes`.

    Raises aws.Unavailable.
    """
    return list(table.read_children([scope]))


def complete_routes(edge: Item, routes: Sequence[Item]) -> list[Item]:
    """Return all routes of an edge. `routes` are from an earlier call of `list_routes`.

    Reads the routes that the edge names but `routes` lacks: they are newer, or stored in record format 2. Raises
    aws.Unavailable.
    """
    return _add_old_routes(edge, list(routes))


def read_routes(edge_items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the list of routes for each edge, newest first.

    The edges must be HTTPS edges of one account, newest first. Routes are read while the caller iterates. One call
    to DynamoDB reads up to 1 MB of routes, often of several edges. Raises aws.Unavailable.
    """
    scopes = [routes_scope(edge.scope, edge.id) for edge in edge_items]
    read = groupby(table.read_children(scopes) if scopes else (), key=lambda route: route.scope)
    scope, routes = next(read, _NO_ROUTES)
    for edge, edge_scope in zip(edge_items, scopes, strict=True):
        while scope > edge_scope:  # skip the routes of edges that are not in `edge_items`
            scope, routes = next(read, _NO_ROUTES)
        yield _add_old_routes(edge, list(routes) if scope == edge_scope else [])


def read_route_page(edge: Item, *, before: str | None, count: int) -> tuple[list[Item], bool]:
    """Return a page of the routes of an HTTPS edge, as `table.read_page` does. Raises aws.Unavailable."""
    page_routes, has_more = table.read_page(routes_scope(edge.scope, edge.id), before=before, count=count)
    oldest = page_routes[-1].id if has_more else ""
    expected = {id for id in _referring_routes(edge) if oldest <= id < (before or "~")}
    if expected <= {route.id for route in page_routes}:
        return page_routes, has_more
    routes = [route for route in _add_old_routes(edge, []) if route.id < (before or "~")]
    return routes[:count], len(routes) > count


def find_by_hostport(account: str, hostport: str) -> str | None:
    """Return the id of the account's edge that has a hostport, or None. Raises aws.Unavailable."""
    key = base_names.listening_key(account, hostport)
    owner = table.look_up(key.kind, key.value)
    return str(owner["id"]) if owner else None


def list_hostports(name: str) -> list[str]:
    """Return the hostports of edges that can serve a name, most specific first.

    The name is host:port, or a host, which is served at port 443. An edge at *.example.com:443 can also serve the host
    www.example.com.
    """
    return [name] if ":" in name else [f"{host}:443" for host in proofs.list_proving_domains(name)]


def find_by_name(name: str, tunnel_domain: str) -> Item | None:
    """Return the edge that serves a name, or None. Raises aws.Unavailable.

    The name is a host, served at port 443, or host:port. Only edges of the account that owns the name are considered.
    """
    host = name.partition(":")[0]
    if domains.is_below(host, tunnel_domain):
        account = base_names.find_account(name, tunnel_domain)
    else:
        reservation = reservations.find_proving(host, tunnel_domain)
        account = reservation.account if reservation else ""
    edge_ids = (find_by_hostport(account, hostport) for hostport in list_hostports(name)) if account else ()
    id = next(filter(None, edge_ids), None)
    return table.find(items.scope(account, kinds.identify(id).path), id) if id else None


def close_tunnels(account: str, hostports: Sequence[str], *, by: Trail) -> None:
    """Close the tunnels of an account at hostports that an edge of the account now uses. Raises aws.Unavailable."""
    hosts = {hostport.rpartition(":")[0] for hostport in hostports}
    ports = {hostport for hostport in hostports if hostport.rpartition(":")[0] == base_names.domain()}
    for name in sorted(ports.union(filter(base_names.can_name_tunnel, hosts))):
        owner = table.look_up(base_names.KIND, name)
        if owner and owner.get("account") == account:
            tunnels.close_tunnel(account, owner["id"], by=by)


def delete_https_edge(change: Change, scope: str, id: str) -> bool:
    """Remove an HTTPS edge with its routes. Return False if it does not exist.

    Its hostports are removed first, so that no request is served without the modules of its route. The removal of the
    hostports and the deletion of each route have separate audit events. The call can be repeated after a crash. Raises
    the errors of `change.check`, aws.Unavailable.
    """

    def remove_hostports(edge: Item) -> Item:
        return replace(edge, body={**edge.body, "hostports": []}, unique_keys=())

    try:
        if not changes.rewrite(change, scope, id, remove_hostports):
            return False
    except MalformedRecord:
        pass  # the edge is malformed, so it serves no requests, and its hostports can stay until it is deleted
    for _ in range(_TRIES):
        for route in table.read_all(routes_scope(scope, id)):
            _delete_route(Change(change.by), route)
        try:
            return changes.delete(Change(change.by), scope, id)
        except InUse:
            continue
    raise aws.Unavailable("TransactionConflict")


def _add_old_routes(edge: Item, current_routes: list[Item]) -> list[Item]:
    """Return the routes of an edge, including routes in record format 2.

    Reads the partition of format 2 only if a route that the edge names is missing. Raises aws.Unavailable.
    """
    missing = _referring_routes(edge) - {route.id for route in current_routes}
    if not missing:
        return current_routes
    scope = routes_scope(edge.scope, edge.id)
    former = table.read_format_2(scope)
    if missing - {route.id for route in former}:
        # a migration can have moved routes to this partition since the first read
        current_routes = list(table.read_children([scope]))
    routes = {route.id: route for route in (*former, *current_routes)}
    return sorted(routes.values(), key=lambda route: route.id, reverse=True)


def _referring_routes(edge: Item) -> set[str]:
    """Return the ids of the routes that the record of an edge names."""
    beneath = f"{routes_scope(edge.path, edge.id)}/"
    return {path.removeprefix(beneath) for path in edge.referrers if path.startswith(beneath)}


def _delete_route(change: Change, route: Item) -> None:
    """Remove a route. If its record has only modules, remove the record without an audit event."""
    if not route.malformed and not (route.body and route.is_live):
        direct_writes.drop(route)
        return
    try:
        change.remove(route).commit()
    except writes.Overtaken:
        changes.delete(change, route.scope, route.id)
