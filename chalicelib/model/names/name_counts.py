"""The number of names of an account, in use and in cooldown.

A cooldown is the time after the release of a name in which only the same account can take the name again. A cooldown
that has ended still counts until `remove_ended_cooldowns` is called.

Names in use belong to edges and reservations. A name that several of them use counts once. A reserved domain outside
TUNNEL_DOMAIN counts as a name in use. The transactions that take or release a name also change the account's counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from chalicelib.model.base import kinds
from chalicelib.model.base.records import LimitReached
from chalicelib.model.names import base_names
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, TransactionFailed, Write
from chalicelib.storage.records import cooldowns, items, shared_keys, table, unique_keys
from chalicelib.storage.records.items import Item

MAX_NAMES = 1000
MAX_COOLDOWN = 10_000  # the most names of an account in cooldown; with more, the oldest cooldowns end early
COUNT = "count"  # the id of the record with an account's name counts
_PATH = "/names"
_BOUNDS: Mapping[str, int] = {"names": MAX_NAMES, "cooldown": MAX_COOLDOWN}
# the most records of ended cooldowns that one transaction removes; a record lists all cooldowns that end at one second
_AT_ONCE = 50


class TooManyNames(LimitReached):
    """A change would give the account too many names in use or in cooldown."""

    def __init__(self, account: str, counts: Mapping[str, int]) -> None:
        super().__init__()
        self.account, self.counts = account, counts

    def make_room(self) -> bool:
        return make_room(self.account, self.counts)


@dataclass(frozen=True)
class NameCounts:
    """The number of names of an account in use and in cooldown."""

    held: int
    cooldown: int


def read(account: str) -> NameCounts:
    """Return how many names of an account are in use, and how many in cooldown. Raises aws.Unavailable."""
    record = dynamodb.get(*record_key(account)) or {}
    counted = record.get("cooldown", 0)
    ended = sum(len(record.values) for record in cooldowns.read_ended(account)) if counted > 0 else 0
    return NameCounts(max(0, record.get("names", 0)), max(0, counted - ended))


def record_key(account: str) -> tuple[str, str]:
    """Return the primary key of the record with the name counts of an account."""
    return items.scope(account, _PATH), COUNT


def count_elsewhere(item: Item) -> int:
    """Return 1 for a reserved domain outside TUNNEL_DOMAIN, otherwise 0."""
    has_name = any(key.kind == base_names.KIND for key in item.unique_keys)
    return int(item.path == kinds.RESERVED_DOMAINS.path and not has_name)


def sum_counts(writes: Iterable[Write], names_elsewhere: int = 0) -> Mapping[str, int]:
    """Return how much some writes add to each name count in total. Counts that stay equal are left out.

    `names_elsewhere` is added to the count of names in use.
    """
    total = Counter({"names": names_elsewhere})
    for write in writes:
        total.update(write.counts)
    return {name: more for name, more in total.items() if more}


def prepare(before: Item | None, after: Item | None, item_writes: Iterable[Write]) -> list[Write]:
    """Return the write that changes the name counts for a changed item.

    `item_writes` are the writes that change the item. The attribute `counts` of a write contains the numbers that the
    write adds to the name counts. If the change adds cooldowns, ended cooldowns are first subtracted from the stored
    count. Raises aws.Unavailable.
    """
    new, old = (count_elsewhere(item) if item else 0 for item in (after, before))
    counts = sum_counts(item_writes, new - old)
    account = next(item.account for item in (after, before) if item)
    remove_ended_cooldowns(account, counts)
    return add(account, counts)


def add(account: str, counts: Mapping[str, int], *, bounds: Mapping[str, int] = _BOUNDS) -> list[Write]:
    """Return the write that changes the counts of an account.

    The write fails with TooManyNames if it would raise a count above the count's limit in `bounds`.
    """
    if not counts:
        return []
    more = {name: bounds[name] - count for name, count in counts.items() if count > 0 and name in bounds}
    text = " AND ".join(f"(attribute_not_exists(#{name}) OR #{name} <= :most_{name})" for name in more)
    free = Condition(text, {f"most_{name}": limit for name, limit in more.items()})
    adds = {**counts, "revision": 1}
    return [
        Write.update(
            *record_key(account), free, sets={"schema": OLDEST_FORMAT}, adds=adds, failing=TooManyNames(account, counts)
        )
    ]


def remove_ended_cooldowns(account: str, counts: Mapping[str, int]) -> None:
    """Subtract ended cooldowns from the stored count if a change will add cooldowns.

    `counts` are the numbers that the change adds to the name counts. Raises aws.Unavailable.
    """
    if counts.get("cooldown", 0) <= 0:
        return
    if ended := list(islice(cooldowns.read_ended(account), _AT_ONCE)):
        count = sum(len(record.values) for record in ended)
        with suppress(TransactionFailed):  # another process has removed and subtracted some of these cooldowns already
            removals = [record.remove(record.values) for record in ended]
            dynamodb.transact([*removals, *add(account, {"cooldown": -count})])


def make_room(account: str, counts: Mapping[str, int]) -> bool:
    """End the account's oldest cooldowns if a change would exceed MAX_COOLDOWN.

    Return whether to try the change again. Raises aws.Unavailable.
    """
    record = dynamodb.get(*record_key(account)) or {}
    if record.get("names", 0) + max(0, counts.get("names", 0)) > MAX_NAMES:
        return False
    excess = record.get("cooldown", 0) + counts.get("cooldown", 0) - MAX_COOLDOWN
    return excess <= 0 or _end_oldest(account, excess)


def _end_oldest(account: str, count: int) -> bool:
    """End at most `count` of the oldest cooldowns of an account. Return whether there were any."""
    oldest = ((record, value) for record in cooldowns.read_all(account) for value in sorted(record.values))
    chosen = list(islice(oldest, count))
    keys = {value: base_names.key(value) for _, value in chosen}
    records = table.read_records((key.scope, unique_keys.ID) for key in keys.values())
    key_records = {value: records.get((key.scope, unique_keys.ID), {}) for value, key in keys.items()}
    ends = (shared_keys.end_cooldown(keys[value], key_records[value], record.until) for record, value in chosen)
    lists = {record: {value for other, value in chosen if other is record} for record, _ in chosen}
    removals = [record.remove(values) for record, values in lists.items()]
    changes = [write for group in ends for write in group] + removals
    if chosen:
        with suppress(TransactionFailed):  # another process has ended some of these cooldowns: the caller tries again
            dynamodb.transact([*changes, *add(account, {"cooldown": -len(chosen)})])
    return bool(chosen)
