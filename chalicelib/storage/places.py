"""Keys of items' records. The key of a record can differ from the scope and id of its item.

All routes of an account are in one collection, ordered by edge, so that one query reads the routes of a page of edges.
The route R of the edge E has the scope `acct_…#/edges/https/E/routes`. Its record has the scope
`acct_…#/edges/https/routes` and the id `E/R`. In the first two formats the record had the scope and id of the route.
Both are read; the setting RECORDS_EDITION selects the format that is written.

Since the third format, SSH certificates of a busy account are in shards, `acct_…#/ssh_user_certificates/N`.
"""

import os
import re
from collections.abc import Iterator

from chalicelib.storage import shards

Place = tuple[str, str]  # the scope and id of a record

_NESTED = re.compile(r"([^#]+#/edges/https)/([^/]+)(/routes)")
_SHARDED = re.compile(r"([^#]+#/ssh_(?:host|user)_certificates)(/[0-9]+)?")
_COLLECTION = re.compile(r"([^#]+#/edges/https)(/routes)")


def latest(scope: str, id: str) -> Place:
    """Return the key of an item's record in the latest format, without a shard."""
    collection, prefix = collected(scope)
    return collection, f"{prefix}{id}"


def written(scope: str, id: str) -> Place:
    """Return the key for the record of a new item."""
    if edition() < 3:
        return scope, id
    if is_sharded(scope):
        return shards.scope(scope, shards.next_for(scope, id)), id
    return latest(scope, id)


def possible(scope: str, id: str) -> Iterator[Place]:
    """Yield the keys that an item's record can have.

    Reading in this order also finds a record that is moved at the same time.
    """
    own, last = (scope, id), latest(scope, id)
    yield last
    if is_sharded(scope):
        yield shards.scope(scope, shards.of(id)), id
    if last != own:
        yield own
    if last != own or (is_sharded(scope) and edition() < 3):
        yield last


def lasting(place: Place) -> Place:
    """Return the key to which a record is migrated. A record in a shard stays there."""
    scope, id = of_item(*place)
    if edition() < 3:
        return scope, id
    return place if is_sharded(scope) else latest(scope, id)


def is_sharded(scope: str) -> bool:
    """Return whether a scope is a collection that can have shards."""
    return (match := _SHARDED.fullmatch(scope)) is not None and not match[2]


def collected(scope: str) -> tuple[str, str]:
    """Return the collection that contains a scope's records, and the prefix of their ids in it."""
    if match := _NESTED.fullmatch(scope):
        return f"{match[1]}{match[3]}", f"{match[2]}/"
    return scope, ""


def of_item(scope: str, id: str) -> tuple[str, str]:
    """Return the scope and id of the item of a record, from its key in any format."""
    if match := _SHARDED.fullmatch(scope):
        return match[1], id
    if "/" in id and (match := _COLLECTION.fullmatch(scope)):
        edge, _, route = id.partition("/")
        return f"{match[1]}/{edge}{match[2]}", route
    return scope, id


def edition() -> int:
    """Return the format of new records: 2 while any running version cannot read format 3."""
    return int(os.environ.get("RECORDS_EDITION") or 3)
