"""Partitions of an account's audit events: one or more for the API, and one for the edge.

A new account has a marker: the edge cannot have written events for it, so the edge's partition does not have to be
read. The marker is removed before the account gets anything for which the edge writes events.
"""

from chalicelib.model.base import kinds
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import direct_writes, items, places, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.shards import further

MARK, WITHOUT_EDGE = places.MARK, f"{places.MARKS}without-edge"


def first(account: str) -> str:
    """Return the partition key of the first shard. A quiet account has no other shard."""
    return items.scope(account, kinds.AUDIT_EVENTS.path)


def scopes(account: str) -> list[str]:
    """Return the partition keys of all shards in order."""
    return [first(account), *further(first(account)).scopes]


def possible(account: str, id: str) -> tuple[str, str]:
    """Return the partition keys of the shards in which an event can be."""
    return first(account), further(first(account)).scope_of(id)


def is_first(event: Item) -> bool:
    """Return whether an event belongs to the first shard."""
    return event.scope == first(event.account)


def is_busy(account: str) -> bool:
    """Return whether the events of an account are divided into shards. One read. Raises aws.Unavailable."""
    return table.is_spread(first(account))


def marks(account: str) -> frozenset[str]:
    """Return the markers of an account: whether it is busy, and whether the edge can act. One read. Raises
    aws.Unavailable.
    """
    found = dynamodb.get_each(*((first(account), mark) for mark in (MARK, WITHOUT_EDGE)))
    return frozenset(record["id"] for record in found if record)


def without_edge(account: str) -> Write:
    """Return the write that marks an account as one for which the edge cannot act."""
    return Write.put({"scope": first(account), "id": WITHOUT_EDGE, "revision": 1})


def with_edge(account: str) -> Write:
    """Return the write that removes the marker of `without_edge`, so that the edge can act."""
    return Write.delete(first(account), WITHOUT_EDGE)


def spread(account: str) -> None:
    """Mark an account as busy. This process then divides its events among shards. Raises aws.Unavailable."""
    direct_writes.spread(first(account))
