"""The change log, in which the live edge finds the items that have changed.

A transaction that changes items also adds an entry: one record in a random shard (one of four partitions), so that
transactions never wait for each other. The entry's id starts with the millisecond of the writer's clock. An entry can
therefore appear late, and readers must read the last OVERLAP seconds again.
"""

import random
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chalicelib.storage.client import queries
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import item_keys
from chalicelib.storage.records.shards import Shards

# Readers read the latest OVERLAP seconds of the log again, to find entries that appear late. An entry is late by at
# most the duration of its write plus the difference between the clocks of two writers: less than OVERLAP.
OVERLAP = 60
SHARDS = Shards("changes#", 4).scopes
_RETENTION = 24 * 60 * 60  # seconds after which DynamoDB removes an entry
# A pattern for the partition keys of items with logged changes. These are the items that the edge serves, the items
# that decide what clients may do, and the unique keys of domains and tunnel names (which contain the owner's account).
# `special` items list the names that Envoy must know before the first visitor uses them.
_LOGGED = (
    r"accounts|(?:domain|tunnel_name)#.+"
    r"|[^#]+#/(?:banned_names|bot_users|gateways|reserved_addrs|reserved_domains|ssh_credentials|ssh_user_certificates"
    r"|ip_policies|tls_certificates|tunnels|users|ssh_certificate_authorities(?:/.*)?|certificate_authorities"
    r"|edges/(?:https|tcp|tls)|backends/(?:http_response|tunnel_group|weighted)|special/[0-9]+)"
)


class ItemKey(NamedTuple):
    """The primary key of an item or a record. It consists of the partition key `scope` and the `id`."""

    scope: str
    id: str


@dataclass(frozen=True)
class Change:
    """An entry of the change log: one transaction.

    `item_keys` are the primary keys of the items that the transaction changed. `at` is the transaction's Unix time, by
    the clock of the process that wrote it.
    """

    id: str
    item_keys: tuple[ItemKey, ...]

    @property
    def at(self) -> float:
        return int(self.id.partition("-")[0]) / 1000


def entries(writes: Iterable[Write]) -> list[Write]:
    """Return the write that logs a transaction. Return an empty list if the log skips all items of the transaction."""
    item_keys = [item_key for write in writes if (item_key := _item_of(write)) and re.fullmatch(_LOGGED, item_key[0])]
    return [_record(item_keys)] if item_keys else []


def entry_of(item_key: ItemKey) -> Write:
    """Return the write of a log entry for one item. The edge then reads this item again."""
    return _record([(item_key.scope, item_key.id)])


def _record(item_keys: Sequence[Sequence[str]]) -> Write:
    now = time.time()
    record = {
        "scope": random.choice(SHARDS),
        "id": f"{int(now * 1000):013}-{secrets.token_hex(8)}",
        "body": {"places": item_keys},
        "expires": int(now) + _RETENTION,
    }
    return Write.put(record)


def read_since(moment: float) -> list[Change]:
    """Return the changes after a Unix time, by the clocks of the writers. Raises aws.Unavailable."""
    after = f"{int(moment * 1000):013}"
    shards = [{"shard": shard, "after": after} for shard in SHARDS]
    records = queries.read_each(shards, KeyConditionExpression="#scope = :shard AND #id > :after")
    return [Change(entry["id"], tuple(ItemKey(*key) for key in entry["body"]["places"])) for entry in records]


def _item_of(write: Write) -> Sequence[str] | None:
    """Return the primary key of the item that a write changes. Return None for a check, which changes nothing."""
    if write.action == "ConditionCheck":
        return None
    key = write.request.get("Key") or write.request["Item"]
    scope, id = key["scope"]["S"], key["id"]["S"]
    return (scope, id) if re.fullmatch(_LOGGED, scope) else item_keys.find_item(scope, id)
