"""The log of changes, by which the live edge hears what is new: a record in the transaction of each change.

Each record has a key of its own, and they are spread over shards by chance: no key is written by all, and no change
waits for another's. Its id begins with the millisecond of the writer's clock, so whoever reads must read again what
may have been written late: see OVERLAP.
"""

import random
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chalicelib.storage import places, queries
from chalicelib.storage.dynamodb import Write

OVERLAP = 60  # seconds: more than a writer's deadline, and than clocks differ
_SHARDS = 4  # each takes 500 changes a second
_KEPT = 24 * 60 * 60  # seconds
# The scopes of what the edge reads, and of what its rights rest on.
_TOLD = re.compile(
    r"accounts|[^#]+#/(?:banned_names|bot_users|gateways|reserved_addrs|reserved_domains|ssh_credentials|ssh_user_certificates"
    r"|tls_certificates|tunnels|users|ssh_certificate_authorities(?:/.*)?|certificate_authorities"
    r"|edges/(?:https|tcp|tls)|backends/(?:http_response|tunnel_group|weighted))"
)


@dataclass(frozen=True)
class Place:
    """The scope and id of an item that was changed."""

    scope: str
    id: str


@dataclass(frozen=True)
class Change:
    """A transaction: when, by its writer's clock in seconds, and the items that it changed."""

    id: str
    places: tuple[Place, ...]

    @property
    def at(self) -> float:
        return int(self.id.partition("-")[0]) / 1000


def entries(writes: Iterable[Write]) -> list[Write]:
    """Return the log entry of a transaction, which names those of its items that the edge reads; none without such."""
    places = [place for write in writes if (place := _place(write)) and _TOLD.fullmatch(place[0])]
    return [_record(places)] if places else []


def entry_of(place: Place) -> Write:
    """Return the log entry of one item, whose own record need not change."""
    return _record([(place.scope, place.id)])


def _record(places: Sequence[Sequence[str]]) -> Write:
    now = time.time()
    record = {
        "scope": f"changes#{random.randrange(_SHARDS)}",
        "id": f"{int(now * 1000):013}-{secrets.token_hex(8)}",
        "body": {"places": places},
        "expires": int(now) + _KEPT,
    }
    return Write.put(record)


def since(moment: float) -> list[Change]:
    """Return the changes that were stamped after a Unix second, by the writers' clocks. Raises aws.Unavailable."""
    return [change for shard in range(_SHARDS) for change in _of_shard(shard, f"{int(moment * 1000):013}")]


def _of_shard(shard: int, after: str) -> Iterable[Change]:
    values = {"shard": f"changes#{shard}", "after": after}
    for records in queries.pages(values, limit=None, KeyConditionExpression="#scope = :shard AND #id > :after"):
        for record in records:
            yield Change(record["id"], tuple(Place(*place) for place in record["body"]["places"]))


def _place(write: Write) -> Sequence[str] | None:
    """Return the scope and id of the item whose record a write changes; None where it changes nothing."""
    if write.action == "ConditionCheck":
        return None
    key = write.request.get("Key") or write.request["Item"]
    scope, id = key["scope"]["S"], key["id"]["S"]
    return (scope, id) if _TOLD.fullmatch(scope) else places.of_item(scope, id)
