"""Records of earlier editions: what each lacks, and the writes that bring it up to date while the API serves.

A record is rewritten by itself, on the condition that nobody has done it before: the work can be stopped anywhere and
repeated. The code reads both forms meanwhile.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.model import edges, kinds, ssh_authorities
from chalicelib.storage import dynamodb, items, revocation_lists, unique_keys
from chalicelib.storage.dynamodb import Condition, TransactionFailed, Write
from chalicelib.storage.items import Item


@dataclass(frozen=True)
class Migration:
    """The writes that bring one record up to date, all or nothing, and what the record is: item or unique key."""

    what: str
    writes: tuple[Write, ...]


def pending() -> Iterator[Migration | None]:
    """Go through all records: yield what each lacks, None for one that is up to date. Raises aws.Unavailable."""
    for page in dynamodb.scan():
        for record in page:
            yield _lacking(record)


def apply(migration: Migration) -> bool:
    """Rewrite a record; False when another has changed it meanwhile. Raises aws.Unavailable."""
    try:
        dynamodb.transact(migration.writes)
    except TransactionFailed:
        return False
    return True


def _lacking(record: Mapping[str, Any]) -> Migration | None:
    if record.get("schema", 1) >= items.SCHEMA:
        return None
    if record["id"] == unique_keys.ID:
        return Migration("unique key", (_with_schema(record["scope"], record["id"]),))
    item = Item.from_record(record)
    kind = kinds.at(item.path)
    if kind is kinds.SSH_CERTIFICATE_AUTHORITIES:
        return Migration("item", (*_with_unique_key(item), *_with_list(item)))
    leading = _leading_back(item) if kind in _WITH_HOSTPORTS and item.body else ()
    return Migration("item", (_with_schema(item.scope, item.id), *leading))


def _with_schema(scope: str, id: str, **more: Any) -> Write:
    """Add what the second edition writes into every record: its schema and a revision."""
    outdated = Condition("attribute_exists(#id) AND attribute_not_exists(#schema)")
    return dynamodb.updating(scope, id, outdated, sets={"schema": items.SCHEMA, **more}, adds={"revision": 1})


def _with_unique_key(authority: Item) -> tuple[Write, ...]:
    """Add the unique key of an SSH authority's public key, by which the SSH gateway finds it."""
    key = ssh_authorities.unique_key(authority.account, authority.id, authority.body)
    taking = unique_keys.taking(key, authority.scope, authority.id, items.SCHEMA)
    return (_with_schema(authority.scope, authority.id, claims=[[key.kind, key.value]]), taking)


def _with_list(authority: Item) -> tuple[Write, ...]:
    """Give an SSH authority its empty list of revocations, unless it has begun one already."""
    if revocation_lists.read(authority.id):
        return ()
    return tuple(write for write, _ in ssh_authorities.founding(authority))


def _leading_back(edge: Item) -> tuple[Write, ...]:
    """Have the hostports of an edge lead to it, by which the live edge finds it."""
    held, leads = (
        Condition("#holder = :holder", {"holder": edge.id}),
        {"body.account": edge.account, "body.id": edge.id},
    )
    keys = edges.hostport_keys(edge.account, edge.id, edge.body)
    return tuple(dynamodb.updating(key.scope, unique_keys.ID, held, sets=leads) for key in keys)


_WITH_HOSTPORTS = (kinds.HTTPS_EDGES, kinds.TLS_EDGES, kinds.TCP_EDGES)
