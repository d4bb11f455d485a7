"""The usage of API keys: when each was last used, and how many of its requests were denied.

Denied requests are stored in a separate record, so that the record that authentication reads stays small.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chalicelib import clock
from chalicelib.model.accounts import api_keys
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import unique_keys

MAX_DENIED = 100  # the most denied requests of a key that are counted per hour, to limit a client's writes
_DENIED = "denied"  # the id of the record with a key's denied requests
_HOUR = 60 * 60

# The Unix second until which denied requests of a key are not counted, by the key's id.
_denied_enough: dict[str, int] = {}


@dataclass(frozen=True)
class KeyUsage:
    """The last use of a key and its denied requests. `last_used` is a Unix second, or None for never."""

    last_used: int | None
    denied_last_hour: int


def record_denied(key: str) -> None:
    """Count a denied request of a key, up to MAX_DENIED per hour. Raises aws.Unavailable.

    Each request is one member of a set, so that concurrent requests do not overwrite each other.
    """
    now = clock.seconds()
    if now < _denied_enough.get(key, 0):
        return
    member = f"{now}.{secrets.token_hex(4)}"
    room = Condition("attribute_not_exists(#denied) OR size(#denied) < :most", {"most": MAX_DENIED})
    sets = {"expires": now + _HOUR}
    write = Write.update(_scope(key), _DENIED, room, sets=sets, adds={"denied": {member}})
    try:
        dynamodb.do(write)
    except ConditionFailed:
        with suppress(ConditionFailed):  # other requests have filled the set again, so this request is not counted
            if _remove_old_denied(key, now):
                dynamodb.do(write)


def read_usage(key: str) -> KeyUsage:
    """Return the last use and denied requests of a key. The last use is accurate to an hour. Raises aws.Unavailable."""
    item_keys = [(_scope(key), id) for id in (unique_keys.ID, _DENIED)]
    token, denied = (record or {} for record in dynamodb.get_each(*item_keys))
    # Earlier versions counted denied requests in the record of the token.
    recent = [*_select_denied(denied, clock.seconds() - _HOUR), *_select_denied(token, clock.seconds() - _HOUR)]
    return KeyUsage(token.get("body", {}).get("used_at"), min(len(recent), MAX_DENIED))


def _remove_old_denied(key: str, now: int) -> bool:
    """Remove denied requests older than an hour. Return whether a request was removed. If not, remember when the oldest
    denied request will be an hour old. Raises aws.Unavailable, and ConditionFailed if the record was deleted.
    """
    record = dynamodb.get(_scope(key), _DENIED) or {}
    recent = _select_denied(record, now - _HOUR)
    if old := {*record.get("denied", ())} - recent:
        there = Condition("attribute_exists(#id)")
        dynamodb.do(Write.update(_scope(key), _DENIED, there, removes={"denied": old}))
        return True
    if recent:
        api_keys.remember(_denied_enough, key, int(min(recent).partition(".")[0]) + _HOUR)
    return False


def _select_denied(record: Mapping[str, Any], second: int) -> set[str]:
    """Return the denied requests in a record that were sent after a Unix second.

    Each denied request is a text that starts with the Unix second at which it was sent.
    """
    return {member for member in record.get("denied", ()) if int(member.partition(".")[0]) > second}


def _scope(key: str) -> str:
    return api_keys.key_of(key).scope
