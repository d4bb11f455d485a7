"""Answers of DynamoDB that tests give in its place."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse

from chalicelib.storage.client import aws


class _Body:
    def __init__(self, text: str) -> None:
        self._text = text.encode()

    def stream(self) -> Iterator[bytes]:
        yield self._text


@contextmanager
def answer_operation(operation: str, body: dict[str, Any], times: int, status: int = 400) -> Iterator[list[str]]:
    """Answer an operation for DynamoDB, so many times, as if it had refused; what was asked."""
    calls: list[str] = []

    def answer(**_: object) -> AWSResponse | None:
        calls.append(operation)
        error_response = AWSResponse(
            "", status, {"Content-Type": "application/x-amz-json-1.0"}, _Body(json.dumps(body))
        )
        return error_response if len(calls) <= times else None

    events = aws.client("dynamodb").meta.events
    events.register_first(f"before-send.dynamodb.{operation}", answer)
    try:
        yield calls
    finally:
        events.unregister(f"before-send.dynamodb.{operation}", answer)
