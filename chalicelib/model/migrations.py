"""Records of earlier editions: what each lacks, and the writes that bring it up to date while the API serves.

A record is rewritten by itself, on the condition that nobody has done it before: the work can be stopped anywhere and
repeated. The code reads both forms meanwhile.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.storage import dynamodb, items, unique_keys
from chalicelib.storage.dynamodb import Condition, TransactionFailed, Write


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
    what = "unique key" if record["id"] == unique_keys.ID else "item"
    return Migration(what, (_with_schema(record["scope"], record["id"]),))


def _with_schema(scope: str, id: str) -> Write:
    """Add what the second edition writes into every record: its schema and a revision."""
    outdated = Condition("attribute_exists(#id) AND attribute_not_exists(#schema)")
    return dynamodb.updating(scope, id, outdated, sets={"schema": items.SCHEMA}, adds={"revision": 1})
