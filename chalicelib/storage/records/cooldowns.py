"""Cooldowns of released names. For a day, only the same account can take such a name again.

A name is a unique key that several items of one account can share (see `shared_keys`). One record lists all names of an
account with a cooldown that ends at the same Unix second. So a change writes only one record, even if it releases many
names. The record's id is this second, so an account's oldest record comes first.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import clock
from chalicelib.storage.client import queries
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, Write
from chalicelib.storage.records import items, table

PERIOD = 24 * 60 * 60  # seconds of a cooldown
SCOPE = "/names/cooldown"


@dataclass(frozen=True)
class Cooldowns:
    """The names of an account with a cooldown that ends at the Unix second `until`. `values` are these names."""

    account: str
    until: int
    values: frozenset[str]
    revision: int

    @staticmethod
    def of(record: Mapping[str, Any]) -> "Cooldowns":
        """Return the cooldowns in a record of the table."""
        account = str(record["scope"]).partition("#")[0]
        return Cooldowns(account, int(record["id"]), frozenset(record.get("names", ())), record["revision"])

    def remove(self, values: Collection[str]) -> Write:
        """Return the write that removes some names from this record. It fails if the record has changed."""
        scope, id = _key(self.account, self.until)
        same = Condition("#revision = :revision", {"revision": self.revision})
        if self.values <= {*values}:
            return Write.delete(scope, id, same)
        return Write.update(scope, id, same, adds={"revision": 1}, removes={"names": {*values}})


def begin(account: str, until: int, values: Iterable[str]) -> Write:
    """Return the write that starts a cooldown for names of an account. The cooldown ends at the Unix second `until`."""
    adds: Mapping[str, Any] = {"names": {*values}, "revision": 1}
    return Write.update(*_key(account, until), Condition(""), sets={"schema": OLDEST_FORMAT}, adds=adds)


def read(account: str, ends: Iterable[int]) -> dict[int, Cooldowns]:
    """Return an account's cooldowns that end at the Unix seconds `ends`, as a map from end to cooldowns.

    Raises aws.Unavailable.
    """
    records = map(Cooldowns.of, table.read_records(_key(account, until) for until in ends).values())
    return {record.until: record for record in records}


def read_ended(account: str) -> Iterator[Cooldowns]:
    """Yield the records of an account's ended cooldowns, oldest first. Raises aws.Unavailable."""
    values = {"scope": items.scope(account, SCOPE), "now": f"{clock.seconds():011}"}
    yield from _query("#scope = :scope AND #id <= :now", values)


def read_all(account: str) -> Iterator[Cooldowns]:
    """Yield all records of an account's cooldowns, oldest first. Raises aws.Unavailable."""
    yield from _query("#scope = :scope", {"scope": items.scope(account, SCOPE)})


def _query(condition: str, values: Mapping[str, str]) -> Iterator[Cooldowns]:
    for records in queries.read_pages(values, limit=50, first="lowest", KeyConditionExpression=condition):
        yield from map(Cooldowns.of, records)


def _key(account: str, until: int) -> tuple[str, str]:
    return items.scope(account, SCOPE), f"{until:011}"
