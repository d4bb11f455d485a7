"""The list of special names, for the live edge: hosts and ports that Envoy must know before a visitor comes.

Each edge or tunnel with such names has a separate record. The transaction that changes the edge or tunnel also writes
this record, so that the change log contains the record's primary key. The record's id starts with the account. Edge
hosts of some earlier versions cannot parse such an id: they treat the record as removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import ItemKey
from chalicelib.storage.records.shards import Shards

_PREFIX = items.scope(EDGE, "/special/")
_SHARDS = Shards(_PREFIX, 16)
_KINDS = (*kinds.EDGES, kinds.TUNNELS)


class SpecialOwner(NamedTuple):
    """The account and id of an edge or tunnel with special names."""

    account: str
    id: str


@dataclass(frozen=True)
class SpecialEntry:
    """The special hostports of an edge or tunnel: Envoy must know them before a visitor comes.

    The entry can contain hostports that are no longer special. Read the record of the edge or tunnel to find out.
    """

    owner: SpecialOwner
    hostports: tuple[str, ...]


def add(entry: SpecialEntry) -> Write:
    """Return the write that adds a new edge or tunnel to the list of special names."""
    item_key, body = find_item_key(entry.owner), {"hostports": list(entry.hostports)}
    return Write.put({"scope": item_key.scope, "id": item_key.id, "body": body, "revision": 1})


def change(entry: SpecialEntry) -> Write:
    """Return the write that changes or adds an entry of the list of special names.

    One read. Raises aws.Unavailable.
    """
    item_key = find_item_key(entry.owner)
    before = dynamodb.get(item_key.scope, item_key.id) or {}
    body = {**before.get("body", {}), "hostports": list(entry.hostports)}
    return Write.update(item_key.scope, item_key.id, Condition(""), sets={"body": body}, adds={"revision": 1})


def remove(owner: SpecialOwner) -> Write:
    """Return the write that removes an edge or tunnel from the list of special names."""
    item_key = find_item_key(owner)
    return Write.delete(item_key.scope, item_key.id)


def is_listed(owner: SpecialOwner) -> bool:
    """Return whether an edge or tunnel is in the list of special names. Raises aws.Unavailable."""
    item_key = find_item_key(owner)
    return dynamodb.get(item_key.scope, item_key.id) is not None


def read_entries() -> Iterator[SpecialEntry | ItemKey]:
    """Yield all entries of the list of special names.

    For a malformed entry, yield the primary key of its record instead. Raises aws.Unavailable.
    """
    for scope in _SHARDS.scopes:
        for item in table.read_all(scope):
            item_key = ItemKey(item.scope, item.id)
            yield _decode(find_owner(item_key), item.body) or item_key


def read(owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
    """Return the entries of some edges and tunnels in the list of special names.

    Missing and malformed entries are left out. Raises aws.Unavailable.
    """
    owned = {(item_key.scope, item_key.id): owner for owner in owners if (item_key := find_item_key(owner))}
    entries = (_decode(owned[item_key], record.get("body")) for item_key, record in table.read_records(owned).items())
    return {entry.owner: entry for entry in entries if entry}


def find_item_key(owner: SpecialOwner) -> ItemKey:
    """Return the primary key of an entry in the list of special names."""
    return ItemKey(_SHARDS.scope_of(owner.id), f"{owner.account}/{owner.id}")


def find_owner(item_key: ItemKey) -> SpecialOwner | None:
    """Return the edge or tunnel of the entry with a primary key. Return None if no entry can have this primary key."""
    account, _, id = item_key.id.partition("/")
    is_valid = bool(account) and any(kind.has(id) for kind in _KINDS)
    return SpecialOwner(account, id) if is_valid and item_key.scope.startswith(_PREFIX) else None


def _decode(owner: SpecialOwner | None, body: Any) -> SpecialEntry | None:
    """Return the entry in the body of a record, or None if it is malformed."""
    hostports = body.get("hostports") if isinstance(body, Mapping) else None
    is_list = isinstance(hostports, Sequence) and not isinstance(hostports, str)
    if owner is None or not is_list or not all(isinstance(hostport, str) for hostport in hostports or ()):
        return None
    return SpecialEntry(owner, tuple(hostports or ()))
