"""Reads the records that decide which edge or tunnel answers at an account's names.

Results are by item key: the primary key of a record, or the partition key of a list. A unique key is the record that
makes a name unique.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds, switches
from chalicelib.model.edges import edges, served
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.names import base_names, reservations
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import account_item_keys
from chalicelib.model.serving.account_item_keys import Found, Switch, Value, Wanted, digest, routes_item_key
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tls import tls_certificates
from chalicelib.model.tunnels import gateways, online_tunnels
from chalicelib.storage.records import items, table, unique_keys
from chalicelib.storage.records.change_log import ItemKey
from chalicelib.storage.records.items import Item

_PARTS = frozenset(
    kind.path
    for kind in (
        *(kinds.HTTP_RESPONSE_BACKENDS, kinds.TUNNEL_GROUPS, kinds.WEIGHTED_BACKENDS),
        *(kinds.CERTIFICATE_AUTHORITIES, kinds.IP_POLICIES),
    )
)
_EDGES = frozenset(kind.path for kind in kinds.EDGES)
_ROUTES = "/routes"
_RESERVED = frozenset((kinds.RESERVED_DOMAINS.path, kinds.RESERVED_ADDRS.path))


def read_items(item_keys: Iterable[ItemKey]) -> dict[ItemKey, Found]:
    """Return the unique keys and items at these item keys. One call reads up to 100. Raises aws.Unavailable."""
    wanted = list(item_keys)
    records = table.records((it.scope, it.id) for it in wanted)
    return {it: _decode(it, records.get((it.scope, it.id))) for it in wanted}


def read_item_keys(item_keys: Iterable[ItemKey]) -> dict[ItemKey, Found]:
    """Return the values at some item keys.

    Places are primary keys of items, or partition keys of lists. All items are read together, each list separately.
    Raises aws.Unavailable.
    """
    wanted = list(item_keys)
    found = read_items(it for it in wanted if it.id)
    return found | {it: read_list(it) for it in wanted if not it.id}


def complete(
    wanted: Wanted,
    known: Mapping[ItemKey, Found],
    tunnel_domain: str,
    read: Callable[[Collection[ItemKey]], Mapping[ItemKey, Found]] = read_item_keys,
) -> dict[ItemKey, Found]:
    """Return the values of all records that `wanted` requires, by item key.

    Values refer to further item keys, so the function `read` is called until no item key is missing. `known` has the
    values of earlier reads. Edges in `known` may not be decoded yet, for example after a change. Raises the errors of
    `read`.
    """
    found = {**known}
    undecoded = [item_key for item_key, it in known.items() if isinstance(it.value, Item)]
    found |= _decode_edges(undecoded, found, tunnel_domain)
    while missing := (item_keys := account_item_keys.list_item_keys(wanted, found, tunnel_domain)) - found.keys():
        found |= (new := read(missing))
        found |= _decode_edges(undecoded := [*undecoded, *new], found, tunnel_domain)
    return {item_key: found[item_key] for item_key in item_keys}


def read_list(item_key: ItemKey) -> Found:
    """Return the entries of the list at an item key. Raises aws.Unavailable."""
    account, _, path = item_key.scope.partition("#")
    if path == kinds.TLS_CERTIFICATES.path:
        certificates = tuple(tls_certificates.read_certificates(account))
        return _found(certificates, *(it.certificate.id for it in certificates))
    if path == kinds.TUNNELS.path:
        decoded = (online_tunnels.decode(it) for it in online_tunnels.list_stored(account) if it.body.get("labels"))
        labelled = tuple(it for it in decoded if it and it.gateway)
        return _found(labelled, *(it.id for it in labelled))
    if path.endswith(_ROUTES):
        routes = tuple(edges.list_routes(item_key.scope))
        return _found(routes, *(f"{it.id} {it.revision}" for it in routes))
    below = item_key.scope.removeprefix(reservations.proved_scope(""))
    proved = tuple(ItemKey(*it) for it in reservations.list_proved_below(below))
    return _found(proved, *(it.id for it in proved))


def _decode_edges(
    item_keys: Iterable[ItemKey], found: Mapping[ItemKey, Found], tunnel_domain: str
) -> dict[ItemKey, Found]:
    """Return the edges at some `item_keys`, decoded together with their routes. Edges decoded earlier are left out.

    If the record of an edge is malformed, its hostports are taken from the unique keys that refer to the edge. So no
    tunnel can answer at them. Raises aws.Unavailable.
    """
    made: dict[ItemKey, Found] = {}
    for item_key in item_keys:
        it = found[item_key]
        if not isinstance(item := it.value, Item):
            continue
        routes = routes_item_key(item_key)
        if routes in found or kinds.at(item_key.scope.partition("#")[2]) is not kinds.HTTPS_EDGES:
            edge = _decode_edge(item, found.get(routes), tunnel_domain)
            if edge.error and not edge.hostports:
                edge = replace(edge, hostports=_hostports_of_keys(item_key, found))
            is_served = edge.hostports or edge.error
            made[item_key] = replace(it, value=edge if is_served else None)
            if routes in found:
                made[routes] = replace(found[routes], value=())
    return made


def _decode_edge(item: Item, routes: Found | None, tunnel_domain: str) -> ServedEdge:
    listed = routes.value if routes and isinstance(routes.value, tuple) else ()
    of_edge = [it for it in listed if isinstance(it, Item)]
    if kinds.of(item.id) is kinds.HTTPS_EDGES:
        of_edge = edges.complete_routes(item, of_edge)
    edge = served.decode_edge(item, of_edge)
    return replace(
        edge, hostports=tuple(it for it in edge.hostports if base_names.has_keys_of(item, it, tunnel_domain))
    )


def _hostports_of_keys(edge: ItemKey, found: Mapping[ItemKey, Found]) -> tuple[str, ...]:
    held = (
        (item_key, it.value) for item_key, it in found.items() if item_key.scope.startswith(f"{base_names.HOSTPORTS}#")
    )
    own = (item_key for item_key, key in held if isinstance(key, NameKey) and ItemKey(key.scope, key.holder) == edge)
    return tuple(sorted(item_key.scope.rpartition("/")[2] for item_key in own))


def _decode(item_key: ItemKey, record: Mapping[str, Any] | None) -> Found:
    if record is None:
        return Found()
    if item_key.id == unique_keys.ID:
        key = NameKey.of(record)
        return _found(key, repr(key))
    item = items.live_item(record)
    value = _decoder(item_key)(item) if item and _is_whole_or_damaged(item) else None
    return _found(value, f"{item.revision}") if item and value else Found()


def _is_whole_or_damaged(item: Item) -> bool:
    """Return whether a record is an existing item. The item may be malformed.

    A record of an edge or route that has modules, but no fields in `body`, does not count as existing. A reservation
    without fields in `body` exists, but is malformed.
    """
    return bool(item.body or item.malformed or item.path in _RESERVED)


def _decoder(item_key: ItemKey) -> Callable[[Item], Value | None]:
    path = item_key.scope.partition("#")[2]
    if item_key.scope == accounts.SCOPE:
        return lambda item: Switch(switches.is_on(item))
    if item_key.scope == gateways.GATEWAYS:
        return gateways.decode
    if path in _EDGES:
        return lambda item: item
    if path in _PARTS:
        return served.decode_part
    others: dict[str, Callable[[Item], Value | None]] = {
        kinds.TUNNELS.path: online_tunnels.decode,
        kinds.RESERVED_DOMAINS.path: ServedReservation.of,
        kinds.RESERVED_ADDRS.path: _decode_address,
    }
    return others[path]


def _decode_address(item: Item) -> ServedAddress:
    try:
        return ServedAddress(reservations.decode_proxy_protocol(item), item.modules)
    except reservations.UnreadableReservation:
        return ServedAddress(None)


def _found(value: Value, *versions: str) -> Found:
    """Return a value with one version text: a digest of the versions of its records."""
    return Found(digest(versions), value)
