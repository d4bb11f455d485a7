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
        self.conflict_counts: Counter[str] = Counter()
        self.transaction_count = 0
        self._busy_keys: set[Key] = set()
        self._lock, self._engine = threading.Lock(), threading.Lock()
        self._thread_state = threading.local()

    def begin(self, params: Mapping[str, Any], **_: object) -> Answer | None:
        """Cancel a transaction that meets another, and let the engine have any other request alone."""
        keys = {_key(action) for action in json.loads(params["body"]).get("TransactItems", ())}
        with self._lock:
            if common_keys := keys & self._busy_keys:
                self.conflict_counts.update(map(_name, common_keys))
                return _build_cancellation(
                    [_key(item) in common_keys for item in json.loads(params["body"])["TransactItems"]]
                )
            self._busy_keys |= keys
        if keys:
            time.sleep(_TAKES)
            with self._lock:
                self._busy_keys -= keys
                self.transaction_count += 1
        # A request takes long, and a failed transaction undoes what others did meanwhile.
        self._thread_state.has_engine = self._engine.acquire()
        return None

    def end(self, **_: object) -> None:
        has_engine, self._thread_state.has_engine = getattr(self._thread_state, "has_engine", False), False
        if has_engine:  # it was not cancelled
            self._engine.release()


@contextmanager
def simulate_conflicts() -> Iterator[Conflicts]:
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


def _build_cancellation(meets: list[bool]) -> Answer:
    reasons = [{"Code": "TransactionConflict" if met else "None"} for met in meets]
    error = {"Code": "TransactionCanceledException", "Message": ""}
    details = {"Error": error, "CancellationReasons": reasons, "ResponseMetadata": {}}
    return AWSResponse("", 400, {}, None), details
