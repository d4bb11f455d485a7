"""Times of certificate orders at the CA, in stored sets. The issuer checks them against the limits of the CA.

Each time is a separate member of a set, so that concurrent issuers do not overwrite each other's times.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.model.base.kinds import EDGE
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items

_SCOPE = items.scope(EDGE, "/order_times")
_ALWAYS = Condition("")


@dataclass(frozen=True)
class TimeSet:
    """A set of times. Times more than `seconds` ago are removed.

    The set has at most `limit` times. A `limit` of 0 means no limit.
    """

    id: str
    seconds: int
    limit: int = 0


ALL = TimeSet("all", 3 * 60 * 60, 250)  # certificate orders of the last three hours, at most 250; without renewals


def read(sets: Mapping[str, TimeSet], now: int) -> dict[str, list[int]]:
    """Return the times in each set, as Unix seconds. Old times are removed. Raises aws.Unavailable."""
    records = dynamodb.get_each(*((_SCOPE, time_set.id) for time_set in sets.values()))
    times_by_set = {}
    for (name, time_set), record in zip(sets.items(), records, strict=True):
        members = _members(record)
        if old := {member for member in members if _second(member) <= now - time_set.seconds}:
            dynamodb.do(Write.update(_SCOPE, time_set.id, _ALWAYS, removes={"times": old}))
        times_by_set[name] = sorted(_second(member) for member in members - old)
    return times_by_set


def add(times: TimeSet, now: int) -> Write:
    """Return the write that adds a time to a set. The write fails if the set already has `limit` times."""
    room = Condition("attribute_not_exists(#times) OR size(#times) < :most", {"most": times.limit})
    sets = {"expires": now + times.seconds, "revision": 1, "schema": dynamodb.OLDEST_FORMAT}
    member = f"{now}.{secrets.token_hex(4)}"
    return Write.update(_SCOPE, times.id, room if times.limit else _ALWAYS, sets=sets, adds={"times": {member}})


def _members(record: Mapping[str, Any] | None) -> set[str]:
    return set(record.get("times", ())) if record else set()


def _second(member: str) -> int:
    return int(member.partition(".")[0])
