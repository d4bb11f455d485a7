"""Partitions of an account's audit events: one, more for a busy account, and one that the edge writes.

A new account is marked as one for which the edge cannot have written events, so the edge's partition is not read.
The mark is removed before the account gets anything that lets the edge act for it.
"""

from chalicelib.model.base import kinds
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import direct_writes, items, places, table
from chalicelib.storage.records.items import Item

COUNT, MARK, WITHOUT_EDGE = places.COUNT, places.MARK, f"{places.MARKS}without-edge"


def of(id: str) -> int:
    """Return the shard of an event of a busy account."""
    return places.shard_of(id)


def scope(account: str, shard: int) -> str:
    """Return the storage scope of a shard. Quiet accounts have only the first one, 0."""
    return places.shard_scope(_collection(account), shard)


def scopes(account: str) -> list[str]:
    """Return the storage scopes of all shards in order."""
    collection = _collection(account)
    return [collection, *places.other_shards(collection)]


def is_first(event: Item) -> bool:
    """Return whether an event belongs to the first shard."""
    return event.scope == scope(event.account, 0)


def is_busy(account: str) -> bool:
    """Return whether the events of an account have shards. One read. Raises aws.Unavailable."""
    return table.is_spread(_collection(account))


def marks(account: str) -> frozenset[str]:
    """Return the marks of an account. One read. Raises aws.Unavailable."""
    found = dynamodb.get_each(*((scope(account, 0), mark) for mark in (MARK, WITHOUT_EDGE)))
    return frozenset(record["id"] for record in found if record)


def without_edge(account: str) -> Write:
    """Return the write that marks an account as one for which the edge cannot act."""
    return Write.put({"scope": scope(account, 0), "id": WITHOUT_EDGE, "revision": 1})


def with_edge(account: str) -> Write:
    """Return the write that removes the mark of `without_edge`."""
    return Write.delete(scope(account, 0), WITHOUT_EDGE)


def spread(account: str) -> None:
    """Mark an account as busy, so that this process puts its events into shards. Raises aws.Unavailable."""
    direct_writes.spread(_collection(account))


def _collection(account: str) -> str:
    return items.scope(account, kinds.AUDIT_EVENTS.path)
