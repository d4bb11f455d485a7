"""The partitions of an account's audit events: shards, where it is busy, and one that the edge writes.

A mark of its own says that the edge cannot have written an event of the account, so that the edge's partition need not
be read. An account has it from its making until it is given what lets the edge act for it.
"""

from chalicelib.model import kinds
from chalicelib.storage import dynamodb, items, shards, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

COUNT, MARK, WITHOUT_EDGE = shards.COUNT, shards.MARK, f"{shards.MARKS}without-edge"

_MAX_KNOWN = 10_000  # accounts
_reached: set[str] = set()  # the accounts that have no longer the mark of those without the edge
_LEADING_TO_THE_EDGE = (kinds.RESERVED_DOMAINS, kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES, kinds.TUNNELS)


def of(id: str) -> int:
    """Return the shard of an event where its account is busy."""
    return shards.of(id)


def scope(account: str, shard: int) -> str:
    """Return the storage scope of a shard: the first one is that of quiet accounts."""
    return shards.scope(_collection(account), shard)


def scopes(account: str) -> list[str]:
    """Return the storage scopes of all shards, the first one's first."""
    collection = _collection(account)
    return [collection, *shards.others(collection)]


def is_first(event: Item) -> bool:
    """Tell whether an event is to lie in the first shard."""
    return event.scope == scope(event.account, 0)


def is_busy(account: str) -> bool:
    """Tell whether the events of an account are spread. One read. Raises aws.Unavailable."""
    return table.has_shards(_collection(account))


def marks(account: str) -> frozenset[str]:
    """Return the marks that an account has. One read. Raises aws.Unavailable."""
    found = dynamodb.get_each(*((scope(account, 0), mark) for mark in (MARK, WITHOUT_EDGE)))
    return frozenset(record["id"] for record in found if record)


def without_edge(account: str) -> Write:
    """Return the write that marks a new account as one for which the edge cannot act."""
    return Write.put({"scope": scope(account, 0), "id": WITHOUT_EDGE, "revision": 1})


def reach(account: str) -> None:
    """Take the mark of `without_edge` away, before the account has what lets the edge act. Raises aws.Unavailable."""
    if account in _reached:
        return
    dynamodb.do(Write.delete(scope(account, 0), WITHOUT_EDGE))
    if len(_reached) >= _MAX_KNOWN:
        _reached.clear()
    _reached.add(account)


def leads_to_the_edge(item: Item) -> bool:
    """Tell whether the edge may write events of an account that has such an item."""
    return kinds.at(item.path) in _LEADING_TO_THE_EDGE


def next_for(account: str, id: str) -> int:
    """Return the shard for a new event of an account."""
    return shards.next_for(_collection(account), id)


def spread(account: str) -> None:
    """Mark an account as busy, and spread the events that this process adds to it. Raises aws.Unavailable."""
    table.add_shards(_collection(account))


def _collection(account: str) -> str:
    return items.scope(account, kinds.AUDIT_EVENTS.path)
