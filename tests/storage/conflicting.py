"""A store that follows DynamoDB's published rules of conflict, which no emulator does: laid over the one in process.

Two transactions that overlap in time conflict where they name the same item, be it to write it or to check a condition
of it. The later one is cancelled, with a reason for each of its actions.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse

from chalicelib.storage.client import aws

_TAKES = 0.01  # seconds between the beginning of a transaction and its end

Answer = tuple[AWSResponse, dict[str, Any]]
Key = tuple[str, str]  # scope and id


class Conflicts:
    """The transactions in flight, and what was met: how often each item, without ids and digests in its scope."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self.done = 0
        self._held: set[Key] = set()
        self._lock, self._engine = threading.Lock(), threading.Lock()
        self._own = threading.local()

    def begin(self, params: Mapping[str, Any], **_: object) -> Answer | None:
        """Cancel a transaction that meets another, and let the engine have any other request alone."""
        keys = {_key(action) for action in json.loads(params["body"]).get("TransactItems", ())}
        with self._lock:
            if meets := keys & self._held:
                self.met.update(map(_name, meets))
                return _cancelled([_key(it) in meets for it in json.loads(params["body"])["TransactItems"]])
            self._held |= keys
        if keys:
            time.sleep(_TAKES)
            with self._lock:
                self._held -= keys
                self.done += 1
        self._own.has = (
            self._engine.acquire()
        )  # it takes long, and takes back what others do meanwhile where a transaction fails
        return None

    def end(self, **_: object) -> None:
        had, self._own.has = getattr(self._own, "has", False), False
        if had:  # it was not cancelled
            self._engine.release()


@contextmanager
def conflicting() -> Iterator[Conflicts]:
    """Have transactions conflict in this block; yield what they met."""
    conflicts, events = Conflicts(), aws.client("dynamodb").meta.events
    events.register_first("before-call.dynamodb", conflicts.begin)
    events.register("after-call.dynamodb", conflicts.end)
    try:
        yield conflicts
    finally:
        events.unregister("before-call.dynamodb", conflicts.begin)
        events.unregister("after-call.dynamodb", conflicts.end)


def _key(action: Mapping[str, Any]) -> Key:
    ((_, request),) = action.items()
    key = request.get("Key") or request["Item"]
    return key["scope"]["S"], key["id"]["S"]


def _name(key: Key) -> str:
    return f"{key[0].partition('#')[2] or key[0]} {key[1].partition('_')[0]}"


def _cancelled(meets: list[bool]) -> Answer:
    reasons = [{"Code": "TransactionConflict" if met else "None"} for met in meets]
    error = {"Code": "TransactionCanceledException", "Message": ""}
    said = {"Error": error, "CancellationReasons": reasons, "ResponseMetadata": {}}
    return AWSResponse("", 400, {}, None), said
