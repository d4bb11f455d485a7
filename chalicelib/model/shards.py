"""Shards of an account's audit events: one partition takes 500 changes a second, so busy accounts have several.

A quiet account has one, and pays for nothing. A process whose event the store turns away, since its partition is hot,
marks the account for good and spreads its own events from then on. What is marked is read from all shards: no event is
in another than the first before the mark.

A second mark says that the edge cannot have written an event of the account, so that its partition need not be read.
An account has it from its making until it is given what lets the edge act for it.
"""

import zlib

from chalicelib.model import kinds
from chalicelib.storage import dynamodb, items
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

COUNT = 9  # with the first, which takes no more once the others are there
MARK, WITHOUT_EDGE = "marked", "without-edge"  # sort behind all ids of events: the newest page begins with them
MARKS = frozenset({MARK, WITHOUT_EDGE})

_MAX_KNOWN = 10_000  # accounts
_spread: set[str] = set()  # the accounts whose events this process spreads
_reached: set[str] = set()  # the accounts that have no longer the mark of those without the edge
_LEADING_TO_THE_EDGE = (kinds.RESERVED_DOMAINS, kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES, kinds.TUNNELS)


def of(id: str) -> int:
    """Return the shard of an event where its account is busy."""
    return 1 + zlib.crc32(id.encode()) % (COUNT - 1)


def scope(account: str, shard: int) -> str:
    """Return the storage scope of a shard: the first one is that of quiet accounts."""
    return items.scope(account, kinds.AUDIT_EVENTS.path + (f"/{shard}" if shard else ""))


def is_busy(account: str) -> bool:
    """Tell whether the events of an account are spread. One read. Raises aws.Unavailable."""
    return dynamodb.get(scope(account, 0), MARK) is not None


def marks(account: str) -> frozenset[str]:
    """Return the marks that an account has. One read. Raises aws.Unavailable."""
    found = dynamodb.get_each(*((scope(account, 0), mark) for mark in sorted(MARKS)))
    return frozenset(record["id"] for record in found if record)


def without_edge(account: str) -> Write:
    """Return the write that marks a new account as one for which the edge cannot act."""
    return Write.put({"scope": scope(account, 0), "id": WITHOUT_EDGE, "body": {"edge": "none"}, "revision": 1})


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
    return of(id) if account in _spread else 0


def spread(account: str) -> None:
    """Mark an account as busy, and spread the events that this process adds to it. Raises aws.Unavailable."""
    dynamodb.do(Write.put({"scope": scope(account, 0), "id": MARK, "body": {"shards": COUNT}, "revision": 1}))
    if len(_spread) >= _MAX_KNOWN:
        _spread.clear()  # who is turned away once more is here again
    _spread.add(account)
