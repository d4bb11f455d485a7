"""The entries of edges in the list of special names: hosts and ports that Envoy must know before a visitor comes.

special_names.py has the list. An edge is special, and has an entry with its hostports, if it forwards bytes, or has
mutual TLS, OAuth on a route, or a `min_version` of TLS other than 1.2.
"""

from collections.abc import Mapping
from typing import Any

from chalicelib.model.base import kinds
from chalicelib.model.edges.modules.tls_termination import UPSTREAM
from chalicelib.model.names import listed_edges, special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item

_DEFAULT_VERSIONS = (None, "", "1.2")  # values of `min_version` that do not make an edge special


def list_edge(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that changes an edge's entry in the list of special names.

    No write is returned if the entry stays the same. The edge's routes are read only if the edge itself is not special,
    because OAuth on a route also makes an edge special. Raises aws.Unavailable.
    """
    old, new = (_special_hostports(item) if item else () for item in (before, after))
    if new == old:
        return _follow_hostports(before, after) if not new else []
    if after and (listed := new or _hostports_of_routes(after)):
        entry = SpecialEntry(SpecialOwner(after.account, after.id), listed)
        return [special_names.change(entry) if old else special_names.add(entry)]
    return [special_names.remove(SpecialOwner(before.account, before.id))] if before else []


def list_route(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that changes a route's edge in the list of special names.

    No write is returned unless the change switches OAuth on or off for the route. Only after such a change, the edge
    and its other routes are read. Raises aws.Unavailable.
    """
    route = after or before
    if route is None or _requires_sign_in(before) == _requires_sign_in(after):
        return []
    owner = owner_of(route)
    edge = table.find_any(items.scope(owner.account, kinds.HTTPS_EDGES.path), owner.id)
    if edge and _requires_sign_in(after):
        hostports = tuple(listed_edges.hostports(edge))
        return [special_names.change(SpecialEntry(owner, hostports))] if hostports else []
    other_routes = (other_route for other_route in table.read_children([route.scope]) if other_route.id != route.id)
    stays = edge and (_special_hostports(edge) or any(map(_requires_sign_in, other_routes)))
    return [] if stays else [special_names.remove(owner)]


def owner_of(route: Item) -> SpecialOwner:
    """Return the account and id of a route's edge. They identify its entry in the list of special names."""
    return SpecialOwner(route.account, (items.find_parent(route.scope) or ("", ""))[1])


def _follow_hostports(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that changes the hostports of an HTTPS edge in the list of special names.

    No write is returned if the list does not change. Call this only if the edge's own modules do not make it special.
    Then only OAuth on a route can make it special.
    """
    if before is None or before.path != kinds.HTTPS_EDGES.path:
        return []
    old, new = (listed_edges.hostports(item) if item else () for item in (before, after))
    if list(old) == list(new):
        return []
    owner = SpecialOwner(before.account, before.id)
    if after and new and (hostports := _hostports_of_routes(after)):
        return [special_names.change(SpecialEntry(owner, hostports))]
    return [special_names.remove(owner)] if old and special_names.is_listed(owner) else []


def _hostports_of_routes(edge: Item) -> tuple[str, ...]:
    """Return all hostports of an edge if one of its routes has OAuth, otherwise none."""
    if edge.path != kinds.HTTPS_EDGES.path:
        return ()
    routes = table.read_children([f"{edge.scope}/{edge.id}/routes"])
    return tuple(listed_edges.hostports(edge)) if any(map(_requires_sign_in, routes)) else ()


def _requires_sign_in(route: Item | None) -> bool:
    return route is not None and "oauth" in _list_enabled(route)


def _special_hostports(edge: Item) -> tuple[str, ...]:
    """Return all hostports of an edge that is special even without its routes. Return () for another edge."""
    if edge.path == kinds.HTTPS_EDGES.path and not edge.malformed and edge.body.get("terminate_at") != UPSTREAM:
        enabled = _list_enabled(edge)
        if "mutual_tls" not in enabled and _has_default_version(enabled.get("tls_termination", {})):
            return ()
    return tuple(listed_edges.hostports(edge))


def _list_enabled(item: Item) -> dict[str, Any]:
    """Return the modules of an item that are not switched off.

    Malformed modules, even null, are included, because they close the item to all visitors.
    """
    modules = item.modules.items()
    disabled = {name for name, module in modules if isinstance(module, Mapping) and module.get("enabled") is False}
    return {name: module for name, module in modules if name not in disabled}


def _has_default_version(termination: object) -> bool:
    """Return whether the module tls_termination has one of _DEFAULT_VERSIONS. False if its record is malformed."""
    return isinstance(termination, Mapping) and termination.get("min_version") in _DEFAULT_VERSIONS
