"""Shards of an account's audit events: one partition takes 500 changes a second, so busy accounts have several.

A quiet account has one, and pays for nothing. A process whose event the store turns away, since its partition is hot,
marks the account for good and spreads its own events from then on. What is marked is read from all shards: no event is
in another than the first before the mark.
"""

import zlib

from chalicelib.model import kinds
from chalicelib.storage import dynamodb, items
from chalicelib.storage.dynamodb import Write

COUNT = 9  # with the first, which takes no more once the others are there
MARK = "marked"  # sorts behind every id of an event, so that the newest page of an account begins with it

_MAX_KNOWN = 10_000  # accounts
_spread: set[str] = set()  # the accounts whose events this process spreads


def of(id: str) -> int:
    """Return the shard of an event where its account is busy."""
    return 1 + zlib.crc32(id.encode()) % (COUNT - 1)


def scope(account: str, shard: int) -> str:
    """Return the storage scope of a shard: the first one is that of quiet accounts."""
    return items.scope(account, kinds.AUDIT_EVENTS.path + (f"/{shard}" if shard else ""))


def is_busy(account: str) -> bool:
    """Tell whether the events of an account are spread. One read. Raises aws.Unavailable."""
    return dynamodb.get(scope(account, 0), MARK) is not None


def next_for(account: str, id: str) -> int:
    """Return the shard for a new event of an account."""
    return of(id) if account in _spread else 0


def spread(account: str) -> None:
    """Mark an account as busy, and spread the events that this process adds to it. Raises aws.Unavailable."""
    dynamodb.do(Write.put({"scope": scope(account, 0), "id": MARK, "body": {"shards": COUNT}, "revision": 1}))
    if len(_spread) >= _MAX_KNOWN:
        _spread.clear()  # who is turned away once more is here again
    _spread.add(account)
