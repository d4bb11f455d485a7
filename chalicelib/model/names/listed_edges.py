"""The list of all edges that have hostports (host:port). Only edge hosts of earlier versions read this list.

Each edge has a separate record in the list. The transaction that changes an edge also adds or removes this record.
"""

from collections.abc import Sequence

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.shards import Shards

HOSTPORTS = "hostports"  # `UniqueKey.kind` of the hostports of edges
_PATHS = frozenset(kind.path for kind in kinds.EDGES)
_SHARDS = Shards(items.scope(EDGE, "/edges/"), 16)


def hostports(item: Item) -> Sequence[str]:
    """Return the hostports of an edge. Return () for an item of any other kind.

    If the edge is malformed, its hostports are read from its unique keys.
    """
    if item.path not in _PATHS:
        return ()
    if item.malformed:
        return hostports_from_keys(item)
    texts = item.body.get("hostports", ())
    is_readable = isinstance(texts, list | tuple) and all(isinstance(hostport, str) for hostport in texts)
    return texts if is_readable else hostports_from_keys(item)


def hostports_from_keys(item: Item) -> list[str]:
    """Return the hostports in the unique keys of an edge."""
    return [key.value.rpartition("/")[2] for key in item.unique_keys if key.kind == HOSTPORTS]


def list_edge(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that adds an edge to the list of edges with hostports, or removes the edge.

    The list has all edges with hostports. Return no write if the hostports stay the same.
    """
    old, new = (hostports(item) if item else () for item in (before, after))
    if after and new and new != old:
        body = {"account": after.account}
        scope, adds = _SHARDS.scope_of(after.id), {"revision": 1}
        return [Write.update(scope, after.id, Condition(""), adds=adds, defaults={"body": body})]
    was_listed = before and (old or (before.malformed and before.path in _PATHS))
    return [Write.delete(_SHARDS.scope_of(before.id), before.id)] if before and was_listed and not new else []


def is_listed(edge: str) -> bool:
    """Return whether an edge is in the list of edges with hostports. Raises aws.Unavailable."""
    return dynamodb.get(_SHARDS.scope_of(edge), edge) is not None
