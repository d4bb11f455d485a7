"""The DynamoDB partitions of an account's audit events.

The API writes to the first shard, one partition. An account is busy after DynamoDB has throttled a write of its events:
then the API divides new events among further shards, by id. The edge writes to a separate partition.

For a new account, a marker (a record without a body) shows that the edge cannot have written events, so its partition
does not have to be read. The marker is removed before the account gets anything for which the edge writes events.
"""

from chalicelib.model.base import kinds
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import direct_writes, item_keys, items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.shards import list_further

MARK, WITHOUT_EDGE = item_keys.MARK, f"{item_keys.MARKS}without-edge"


def find_first(account: str) -> str:
    """Return the partition key of the first shard. Only busy accounts have further shards."""
    return items.scope(account, kinds.AUDIT_EVENTS.path)


def scopes(account: str) -> list[str]:
    """Return the partition keys of all shards that an account can have, the first shard first."""
    return [find_first(account), *list_further(find_first(account)).scopes]


def list_possible(account: str, id: str) -> tuple[str, str]:
    """Return the two partition keys that an event from the API can have.

    One is the key of the first shard. The other is the key of the further shard that the event's id selects.
    """
    return find_first(account), list_further(find_first(account)).scope_of(id)


def is_first(event: Item) -> bool:
    """Return whether an event is in the first shard of its account."""
    return event.scope == find_first(event.account)


def is_busy(account: str) -> bool:
    """Return whether the events of an account are divided into shards. One read. Raises aws.Unavailable."""
    return table.is_spread(find_first(account))


def marks(account: str) -> frozenset[str]:
    """Return the ids of an account's markers, which are records without a body. One read. Raises aws.Unavailable.

    The marker MARK means that the account is busy, WITHOUT_EDGE that the edge cannot have written events.
    """
    marker_records = dynamodb.get_each(*((find_first(account), mark) for mark in (MARK, WITHOUT_EDGE)))
    return frozenset(record["id"] for record in marker_records if record)


def exclude_edge(account: str) -> Write:
    """Return the write that marks an account as one for which the edge cannot have written events."""
    return Write.put({"scope": find_first(account), "id": WITHOUT_EDGE, "revision": 1})


def include_edge(account: str) -> Write:
    """Return the write that removes the marker WITHOUT_EDGE. Then the edge can write events for the account."""
    return Write.delete(find_first(account), WITHOUT_EDGE)


def spread(account: str) -> None:
    """Mark an account as busy. From then on, this process divides its events among shards. Raises aws.Unavailable."""
    direct_writes.spread(find_first(account))
