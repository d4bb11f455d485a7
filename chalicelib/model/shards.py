"""The partitions of an account's audit events: shards, where it is busy, and one that the edge writes.

A mark of its own says that the edge cannot have written an event of the account, so that the edge's partition need not
be read. An account has it from its making until it is given what lets the edge act for it.
"""

from chalicelib.model import kinds
from chalicelib.storage import dynamodb, items, places, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

COUNT, MARK, WITHOUT_EDGE = places.COUNT, places.MARK, f"{places.MARKS}without-edge"


def of(id: str) -> int:
    """Return the shard of an event where its account is busy."""
    return places.shard_of(id)


def scope(account: str, shard: int) -> str:
    """Return the storage scope of a shard: the first one is that of quiet accounts."""
    return places.shard_scope(_collection(account), shard)


def scopes(account: str) -> list[str]:
    """Return the storage scopes of all shards, the first one's first."""
    collection = _collection(account)
    return [collection, *places.other_shards(collection)]


def is_first(event: Item) -> bool:
    """Tell whether an event is to lie in the first shard."""
    return event.scope == scope(event.account, 0)


def is_busy(account: str) -> bool:
    """Tell whether the events of an account are spread. One read. Raises aws.Unavailable."""
    return table.is_spread(_collection(account))


def marks(account: str) -> frozenset[str]:
    """Return the marks that an account has. One read. Raises aws.Unavailable."""
    found = dynamodb.get_each(*((scope(account, 0), mark) for mark in (MARK, WITHOUT_EDGE)))
    return frozenset(record["id"] for record in found if record)


def without_edge(account: str) -> Write:
    """Return the write that marks a new account as one for which the edge cannot act."""
    return Write.put({"scope": scope(account, 0), "id": WITHOUT_EDGE, "revision": 1})


def with_edge(account: str) -> Write:
    """Return the write that removes the mark of `without_edge`."""
    return Write.delete(scope(account, 0), WITHOUT_EDGE)


def spread(account: str) -> None:
    """Mark an account as busy, and spread the events that this process adds to it. Raises aws.Unavailable."""
    table.spread(_collection(account))


def _collection(account: str) -> str:
    return items.scope(account, kinds.AUDIT_EVENTS.path)
