"""`revocations list` over two simulated tables: `python -m bench.restore 1000000` prints duration and memory.

The tables exist only as answers to requests, each after the time that DynamoDB takes for it. The memory must be at most
200 MB, and requests must run in parallel.
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.awsrequest import AWSResponse

from chalicelib.operator.bulk.revoked_since import Comparison
from chalicelib.storage.client import aws

LATER = "later"
SCAN, BATCH = 0.02, 0.01  # seconds of a page of 1,000 records, and of 100 records by key
MAX_MEMORY = 200  # MB
_REVOKED = 1_000  # one of so many keys is missing in the later table
_EVENTS = ("Scan", "BatchGetItem", "Query")


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content


@dataclass
class SimulatedTables:
    """A restored table of API keys and a later one. `most` is the highest number of simultaneous requests.

    `largest` is the highest number of records that a request wanted.
    """

    count: int
    scan: float = SCAN
    batch: float = BATCH
    requests: int = 0
    max_running: int = 0
    largest: int = 0
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        operation, parameters = event_name.rpartition(".")[2], json.loads(request.body)
        with self._lock:
            self.requests += 1
            self._running += 1
            self.max_running = max(self.max_running, self._running)
        try:
            content = json.dumps(self._read(operation, parameters)).encode()
        finally:
            with self._lock:
                self._running -= 1
        return AWSResponse("", 200, {"Content-Type": "application/x-amz-json-1.0"}, _Body(content))

    def _read(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "BatchGetItem":
            time.sleep(self.batch)
            ((table, request),) = parameters["RequestItems"].items()
            numbers = (int(key["id"]["S"][-27:]) for key in request["Keys"])
            return {"Responses": {table: [_record(number) for number in numbers if number % _REVOKED]}}
        if operation == "Query" or parameters["TableName"] == LATER:
            return {"Items": []}
        time.sleep(self.scan)
        self.largest = max(self.largest, parameters["Limit"])
        first = int(parameters.get("ExclusiveStartKey", {}).get("id", {}).get("S", "0" * 27)[-27:])
        total, number = parameters["TotalSegments"], parameters["Segment"]
        end = self.count * (number + 1) // total
        start = max(first, self.count * number // total)
        last = min(start + parameters["Limit"], end)
        more = {"LastEvaluatedKey": {name: _record(last)[name] for name in ("scope", "id")}} if last < end else {}
        return {"Items": [_record(index) for index in range(start, last)], **more}


def _record(number: int) -> dict[str, Any]:
    account = f"acct_{number // 3:027}"
    body = {"owner_id": {"S": f"usr_{number:027}"}, "description": {"S": "a pipeline of this account"}}
    return {"scope": {"S": f"{account}#/api_keys"}, "id": {"S": f"ak_{number:027}"}, "body": {"M": body}}


@contextmanager
def simulated(tables: SimulatedTables) -> Iterator[None]:
    """Answer the reads of this process from simulated tables."""
    events = aws.client("dynamodb").meta.events
    for name in _EVENTS:
        events.register_first(f"before-send.dynamodb.{name}", tables.answer)
    try:
        yield
    finally:
        for name in _EVENTS:
            events.unregister(f"before-send.dynamodb.{name}", tables.answer)


def main(count: int) -> None:
    """Print the figures of a comparison of tables with so many keys. Exit with status 1 if a bound is missed."""
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_DEFAULT_REGION="us-east-1")
    tables, began = SimulatedTables(count), time.monotonic()
    with simulated(tables), TemporaryDirectory() as folder:
        lines = sum(1 for _ in Comparison(LATER, Path(folder), lambda text: print(text, file=sys.stderr)).run())
    seconds, memory = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count:,} keys: {lines:,} lines, {seconds:.0f} s, {memory} MB, {tables.requests:,} requests,")
    print(f"at most {tables.max_running} at the same time")
    if memory > MAX_MEMORY or tables.max_running == 1:
        sys.exit(f"More than {MAX_MEMORY} MB, or only one request at a time.")


if __name__ == "__main__":
    main(int(sys.argv[1]))
