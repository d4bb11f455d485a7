"""Decides which records of an account must be read again after some of them changed. This file does no I/O.

`values` has the values of earlier reads, by item key: the primary key of a record, or the partition key of a list. A
unique key is the record that makes a name unique: it refers to the items that have the name.
"""

from collections.abc import Iterable, Set
from dataclasses import replace

from chalicelib.model.base import kinds
from chalicelib.model.names import name_keys
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.account_item_keys import (
    StoredValue,
    StoredValues,
    certificates_item_key,
    digest,
    routes_item_key,
    tunnels_item_key,
)
from chalicelib.model.serving.sites import ServedAddress
from chalicelib.model.tunnels import gateways, name_bans
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import ItemKey
from chalicelib.storage.records.items import Item

# kinds of items that can have host names or ports
_NAMING = (*kinds.EDGES, kinds.TUNNELS, kinds.RESERVED_DOMAINS, kinds.RESERVED_ADDRS)
_NAMING_PATHS = frozenset(kind.path for kind in _NAMING)


def is_affected(account: str, item_key: ItemKey, values: StoredValues) -> bool:
    """Return whether a changed record can affect an account. `values` has the values that were read for the account."""
    return item_key in values or item_key.scope.startswith(f"{account}#") or _key_of_ban(item_key) in values


def list_changed_items(account: str, item_keys: Iterable[ItemKey], values: StoredValues) -> set[ItemKey]:
    """Return the item keys of changed items that must be read.

    An item must be read if it was read before, or if items of its kind can have a name or port. Gateways are left out,
    because the caller already has the live gateways.
    """
    naming = {items.scope(account, kind.path) for kind in _NAMING}
    known = {item_key for item_key in item_keys if item_key.id and (item_key in values or item_key.scope in naming)}
    return {item_key for item_key in known if item_key.scope != gateways.GATEWAYS}


def find_updates(
    account: str,
    item_keys: Set[ItemKey],
    values: StoredValues,
    new_values: StoredValues,
    tunnel_domain: str,
) -> dict[ItemKey, StoredValue | None]:
    """Return the values that must be replaced after the records at `item_keys` changed, by item key.

    A returned value of None means that the caller must read the value again. `values` are the values of earlier reads.
    `new_values` are the values of items that were read after the changes.
    """
    stale = {key for item_key in item_keys if (key := _key_of_ban(item_key))} - new_values.keys()
    for item_key, stored in new_values.items():
        named = _named_keys(stored, values, tunnel_domain) & values.keys()
        stale |= (_referring_keys(item_key, values) ^ named) - new_values.keys()
        if kinds.is_id(item_key.id) and kinds.identify(item_key.id) is kinds.HTTPS_EDGES:
            stale.add(routes_item_key(item_key))
    if any(item_key.scope == certificates_item_key(account).scope for item_key in item_keys):
        stale.add(certificates_item_key(account))
    return {**new_values, **dict.fromkeys(stale), **_merge(account, values, new_values)}


def _key_of_ban(item_key: ItemKey) -> ItemKey | None:
    return name_keys.name_item_key(item_key.id) if item_key.scope == name_bans.SCOPE else None


def _referring_keys(item: ItemKey, values: StoredValues) -> set[ItemKey]:
    """Return the item keys of the unique keys in `values` that refer to an item."""
    if item.scope.partition("#")[2] not in _NAMING_PATHS:
        return set()
    return {
        item_key
        for item_key, stored in values.items()
        if isinstance(key := stored.value, NameKey) and ((key.scope, key.owner_id) == item or item in key.sharers)
    }


def _named_keys(stored_value: StoredValue, values: StoredValues, tunnel_domain: str) -> set[ItemKey]:
    """Return the item keys of the unique keys for the names of an item.

    The value of a reserved address does not contain its name. So for a reserved address, return all unique keys of
    ports in `values`.
    """
    match stored_value.value:
        case Item(unique_keys=keys):
            return {name_keys.item_key_of(key) for key in keys}
        case ServedTunnel(name=name) if name:
            return {name_keys.name_item_key(name)}
        case ServedReservation() as reservation:
            return set(name_keys.list_reservation_keys(reservation, tunnel_domain))
        case ServedAddress():
            ports = (item_key for item_key in values if ":" in item_key.scope)
            return {item_key for item_key in ports if isinstance(values[item_key].value, NameKey)}
    return set()


def _merge(account: str, values: StoredValues, new_values: StoredValues) -> dict[ItemKey, StoredValue]:
    """Apply the changes in `new_values` to the list of an account's labelled tunnels.

    Return {item key: new list}, or {} if the list was not read before or is unchanged.
    """
    item_key = tunnels_item_key(account)
    before = values.get(item_key)
    changed = {key.id: stored.value for key, stored in new_values.items() if key.scope == item_key.scope}
    if before is None or not changed:
        return {}
    listed = before.value if isinstance(before.value, tuple) else ()
    known = {tunnel.id: tunnel for tunnel in listed if isinstance(tunnel, ServedTunnel) and tunnel.id not in changed}
    new = {id: tunnel for id, tunnel in changed.items() if isinstance(tunnel, ServedTunnel) and tunnel.labels}
    merged = {**known, **new}
    newest = tuple(merged[id] for id in sorted(merged, reverse=True))
    return {item_key: replace(before, version=digest(tunnel.id for tunnel in newest), value=newest)}
