"""Decides which records of an account must be read again after some of them changed. This file does no I/O.

`found` has the values of earlier reads, by place: the primary key of a record, or the partition key of a list. A unique
key is the record that makes a name unique: it refers to the items that have the name.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from chalicelib.model.base import kinds
from chalicelib.model.names import name_keys
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.account_places import (
    Found,
    certificates_place,
    digest,
    routes_place,
    tunnels_place,
)
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tunnels import gateways, name_bans
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import Place
from chalicelib.storage.records.items import Item

# kinds of items that can have host names or ports
_NAMING = (*kinds.EDGES, kinds.TUNNELS, kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS)
_NAMING_PATHS = frozenset(kind.path for kind in _NAMING)


def is_affected(account: str, place: Place, found: Mapping[Place, Found]) -> bool:
    """Return whether a changed record can affect an account. `found` has the values that were read for the account."""
    return place in found or place.scope.startswith(f"{account}#") or _key_of_ban(place) in found


def list_changed_items(account: str, places: Iterable[Place], found: Mapping[Place, Found]) -> set[Place]:
    """Return the places of changed items that must be read.

    An item must be read if it was read before, or if items of its kind can have a name or port. Gateways are left out,
    because the caller already has the live ones.
    """
    naming = {items.scope(account, kind.path) for kind in _NAMING}
    known = {it for it in places if it.id and (it in found or it.scope in naming)}
    return {it for it in known if it.scope != gateways.GATEWAYS}


def find_updates(
    account: str, places: Set[Place], found: Mapping[Place, Found], fresh: Mapping[Place, Found], tunnel_domain: str
) -> dict[Place, Found | None]:
    """Return the values that must be replaced after the records at `places` changed, by place.

    A new value of None means that the value must be read again. `found` has the values of earlier reads. `fresh` has
    the values of items that were read after the changes.
    """
    stale = {key for place in places if (key := _key_of_ban(place))} - fresh.keys()
    for place, it in fresh.items():
        named = _named_keys(it, found, tunnel_domain) & found.keys()
        stale |= (_referring_keys(place, found) ^ named) - fresh.keys()
        if kinds.is_id(place.id) and kinds.of(place.id) is kinds.HTTPS_EDGES:
            stale.add(routes_place(place))
    if any(place.scope == certificates_place(account).scope for place in places):
        stale.add(certificates_place(account))
    return {**fresh, **dict.fromkeys(stale), **_merged(account, found, fresh)}


def _key_of_ban(place: Place) -> Place | None:
    return name_keys.name_place(place.id) if place.scope == name_bans.SCOPE else None


def _referring_keys(item: Place, found: Mapping[Place, Found]) -> set[Place]:
    """Return the places of the unique keys in `found` that refer to an item."""
    if item.scope.partition("#")[2] not in _NAMING_PATHS:
        return set()
    return {
        place
        for place, it in found.items()
        if isinstance(key := it.value, NameKey) and ((key.scope, key.holder) == item or item in key.sharers)
    }


def _named_keys(fresh: Found, found: Mapping[Place, Found], tunnel_domain: str) -> set[Place]:
    """Return the places of the unique keys that an item's names require.

    The name of a reserved address is not in its value, so all unique keys of ports in `found` are returned for it.
    """
    match fresh.value:
        case Item(unique_keys=keys):
            return {name_keys.key_place(key) for key in keys}
        case ServedTunnel(name=name) if name:
            return {name_keys.name_place(name)}
        case ServedReservation() as reservation:
            return set(name_keys.list_reservation_keys(reservation, tunnel_domain))
        case ServedAddress():
            return {place for place, it in found.items() if isinstance(it.value, NameKey) and ":" in place.scope}
    return set()


def _merged(account: str, found: Mapping[Place, Found], fresh: Mapping[Place, Found]) -> dict[Place, Found]:
    """Apply the changes in `fresh` to the list of an account's labelled tunnels.

    Return the new list by its place. Return {} if the list was not read before, or has no changes.
    """
    place = tunnels_place(account)
    before = found.get(place)
    changed = {it.id: value.value for it, value in fresh.items() if it.scope == place.scope}
    if before is None or not changed:
        return {}
    listed = before.value if isinstance(before.value, tuple) else ()
    known = {it.id: it for it in listed if isinstance(it, ServedTunnel) and it.id not in changed}
    new = {id: it for id, it in changed.items() if isinstance(it, ServedTunnel) and it.labels}
    merged = {**known, **new}
    newest = tuple(merged[id] for id in sorted(merged, reverse=True))
    return {place: replace(before, version=digest(it.id for it in newest), value=newest)}
