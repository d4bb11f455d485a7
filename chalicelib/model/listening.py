"""The edges of all accounts that listen somewhere: a record of each, by which the live edge finds them.

The record comes and goes in the transactions that change the edge, and no two edges share one.
"""

import zlib
from collections.abc import Iterator, Sequence

from chalicelib.model import kinds
from chalicelib.model.kinds import EDGE
from chalicelib.storage import dynamodb, items, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

HOSTPORTS = "hostports"  # the kind of the unique keys of where an edge listens
_PATHS = frozenset(kind.path for kind in kinds.EDGES)
_SHARDS = 16  # scopes: each takes 1,000 edges a second, and is one query for some thousand


def hostports(item: Item) -> Sequence[str]:
    """Return where an item listens, nowhere if it is no edge. Of a malformed one its unique keys say where."""
    if item.path not in _PATHS:
        return ()
    if item.malformed:
        return hostports_from_keys(item)
    found: Sequence[str] = item.body.get("hostports", ())
    return found


def hostports_from_keys(item: Item) -> list[str]:
    """Return the hostports that the unique keys of an edge name."""
    return [key.value.rpartition("/")[2] for key in item.unique_keys if key.kind == HOSTPORTS]


def list_edge(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that lists an edge or takes it off the list, none where a change leaves its hostports alone."""
    old, new = (hostports(item) if item else () for item in (before, after))
    if after and new and new != old:
        return [
            Write.put({"scope": _shard(after.id), "id": after.id, "body": {"account": after.account}, "revision": 1})
        ]
    was_listed = before and (old or (before.malformed and before.path in _PATHS))
    return [Write.delete(_shard(before.id), before.id)] if before and was_listed and not new else []


def is_listed(edge: str) -> bool:
    """Tell whether an edge has its record. Raises aws.Unavailable."""
    return dynamodb.get(_shard(edge), edge) is not None


def every() -> Iterator[tuple[str, str]]:
    """Yield the account and id of each edge that listens somewhere, whatever its record says there.

    Raises aws.Unavailable.
    """
    for shard in range(_SHARDS):
        for item in table.every(_scope(shard)):
            yield f"{item.body.get('account')}", item.id


def is_valid_entry(account: str, id: str) -> bool:
    """Tell whether a record of the list names an edge of an account."""
    return kinds.ACCOUNTS.has(account) and any(kind.has(id) for kind in kinds.EDGES)


def _shard(edge: str) -> str:
    return _scope(zlib.crc32(edge.encode()) % _SHARDS)


def _scope(shard: int) -> str:
    return items.scope(EDGE, f"/edges/{shard}")
