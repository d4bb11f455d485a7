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
from chalicelib.model.serving.account_item_keys import (
    RecordsRequest,
    StoredValue,
    StoredValues,
    Switch,
    Value,
    digest,
    routes_item_key,
)
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


def read_items(item_keys: Iterable[ItemKey]) -> dict[ItemKey, StoredValue]:
    """Return the unique keys and items at these item keys. One call reads up to 100. Raises aws.Unavailable."""
    key_list = list(item_keys)
    records = table.read_records((item_key.scope, item_key.id) for item_key in key_list)
    return {item_key: _decode(item_key, records.get((item_key.scope, item_key.id))) for item_key in key_list}


def read_item_keys(item_keys: Iterable[ItemKey]) -> dict[ItemKey, StoredValue]:
    """Return the values at some item keys.

    Item keys are primary keys of items, or partition keys of lists. All items are read together, each list separately.
    Raises aws.Unavailable.
    """
    key_list = list(item_keys)
    values = read_items(item_key for item_key in key_list if item_key.id)
    return values | {item_key: read_list(item_key) for item_key in key_list if not item_key.id}


def complete(
    request: RecordsRequest,
    earlier_values: StoredValues,
    tunnel_domain: str,
    read: Callable[[Collection[ItemKey]], StoredValues] = read_item_keys,
) -> dict[ItemKey, StoredValue]:
    """Return the values of all records that a request requires, by item key.

    Values refer to further item keys, so the function `read` is called until no item key is missing. Edges among the
    `earlier_values` may not be decoded yet, for example after a change. Raises the errors of `read`.
    """
    values = {**earlier_values}
    undecoded = [item_key for item_key, stored in earlier_values.items() if isinstance(stored.value, Item)]
    values |= _decode_edges(undecoded, values, tunnel_domain)
    while missing := (item_keys := account_item_keys.list_item_keys(request, values, tunnel_domain)) - values.keys():
        values |= (new := read(missing))
        values |= _decode_edges(undecoded := [*undecoded, *new], values, tunnel_domain)
    return {item_key: values[item_key] for item_key in item_keys}


def read_list(item_key: ItemKey) -> StoredValue:
    """Return the entries of the list at an item key. Raises aws.Unavailable."""
    account, _, path = item_key.scope.partition("#")
    if path == kinds.TLS_CERTIFICATES.path:
        certificates = tuple(tls_certificates.read_certificates(account))
        return _make_value(certificates, *(certificate.certificate.id for certificate in certificates))
    if path == kinds.TUNNELS.path:
        tunnel_items = (item for item in online_tunnels.list_stored(account) if item.body.get("labels"))
        labelled = tuple(tunnel for tunnel in map(online_tunnels.decode, tunnel_items) if tunnel and tunnel.gateway)
        return _make_value(labelled, *(tunnel.id for tunnel in labelled))
    if path.endswith(_ROUTES):
        routes = tuple(edges.list_routes(item_key.scope))
        return _make_value(routes, *(f"{route.id} {route.revision}" for route in routes))
    below = item_key.scope.removeprefix(reservations.proved_scope(""))
    proved = tuple(ItemKey(*proved_key) for proved_key in reservations.list_proved_below(below))
    return _make_value(proved, *(proved_key.id for proved_key in proved))


def _decode_edges(item_keys: Iterable[ItemKey], values: StoredValues, tunnel_domain: str) -> dict[ItemKey, StoredValue]:
    """Return the edges at some `item_keys`, decoded together with their routes. Edges decoded earlier are left out.

    If the record of an edge is malformed, its hostports are read from the unique keys that refer to the edge. Without
    these hostports, a tunnel could answer at them. Raises aws.Unavailable.
    """
    edge_values: dict[ItemKey, StoredValue] = {}
    for item_key in item_keys:
        stored = values[item_key]
        if not isinstance(item := stored.value, Item):
            continue
        routes = routes_item_key(item_key)
        if routes in values or kinds.find_by_path(item_key.scope.partition("#")[2]) is not kinds.HTTPS_EDGES:
            edge = _decode_edge(item, values.get(routes), tunnel_domain)
            if edge.error and not edge.hostports:
                edge = replace(edge, hostports=_hostports_of_keys(item_key, values))
            is_served = edge.hostports or edge.error
            edge_values[item_key] = replace(stored, value=edge if is_served else None)
            if routes in values:
                edge_values[routes] = replace(values[routes], value=())
    return edge_values


def _decode_edge(item: Item, routes: StoredValue | None, tunnel_domain: str) -> ServedEdge:
    listed = routes.value if routes and isinstance(routes.value, tuple) else ()
    of_edge = [entry for entry in listed if isinstance(entry, Item)]
    if kinds.identify(item.id) is kinds.HTTPS_EDGES:
        of_edge = edges.complete_routes(item, of_edge)
    edge = served.decode_edge(item, of_edge)
    hostports = (hostport for hostport in edge.hostports if base_names.has_keys_of(item, hostport, tunnel_domain))
    return replace(edge, hostports=tuple(hostports))


def _hostports_of_keys(edge: ItemKey, values: StoredValues) -> tuple[str, ...]:
    hostport_keys = (item_key for item_key in values if item_key.scope.startswith(f"{base_names.HOSTPORTS}#"))
    keys = ((item_key, values[item_key].value) for item_key in hostport_keys)
    scopes = (
        item_key.scope
        for item_key, key in keys
        if isinstance(key, NameKey) and ItemKey(key.scope, key.owner_id) == edge
    )
    return tuple(sorted(scope.rpartition("/")[2] for scope in scopes))


def _decode(item_key: ItemKey, record: Mapping[str, Any] | None) -> StoredValue:
    if record is None:
        return StoredValue()
    if item_key.id == unique_keys.ID:
        key = NameKey.of(record)
        return _make_value(key, repr(key))
    item = items.decode_live(record)
    value = _decoder(item_key)(item) if item and _is_whole_or_damaged(item) else None
    return _make_value(value, f"{item.revision}") if item and value else StoredValue()


def _is_whole_or_damaged(item: Item) -> bool:
    """Return whether a record is an item that exists. The item may be malformed.

    An item without fields in `body` does not exist, even if it has modules. But a reservation without fields in `body`
    exists: it is malformed.
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
    decoders: dict[str, Callable[[Item], Value | None]] = {
        kinds.TUNNELS.path: online_tunnels.decode,
        kinds.RESERVED_DOMAINS.path: ServedReservation.of,
        kinds.RESERVED_ADDRS.path: _decode_address,
    }
    return decoders[path]


def _decode_address(item: Item) -> ServedAddress:
    try:
        return ServedAddress(reservations.decode_proxy_protocol(item), item.modules)
    except reservations.UnreadableReservation:
        return ServedAddress(None)


def _make_value(value: Value, *versions: str) -> StoredValue:
    """Return a value with one version text: a digest of the versions of its records."""
    return StoredValue(digest(versions), value)
