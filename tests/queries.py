"""What the service queries in its store, seen from botocore's events."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chalicelib.storage import aws


@contextmanager
def queries() -> Iterator[list[str]]:
    """Yield a list that gets the scope of each Query in this block."""
    seen: list[str] = []

    def note(params: Mapping[str, Any], **_: object) -> None:
        seen.append(params["ExpressionAttributeValues"][":scope"]["S"])

    events = aws.client("dynamodb").meta.events
    events.register("provide-client-params.dynamodb.Query", note)
    try:
        yield seen
    finally:
        events.unregister("provide-client-params.dynamodb.Query", note)


@contextmanager
def reads() -> Iterator[list[int]]:
    """How many items each query in here read."""
    seen: list[int] = []

    def note(parsed: Mapping[str, Any], **_: object) -> None:
        seen.append(parsed["ScannedCount"])

    events = aws.client("dynamodb").meta.events
    events.register("after-call.dynamodb.Query", note)
    try:
        yield seen
    finally:
        events.unregister("after-call.dynamodb.Query", note)


@contextmanager
def calls() -> Iterator[list[str]]:
    """Yield a list that gets the name of each operation of DynamoDB and KMS in this block, in order."""
    seen: list[str] = []

    def note(params: object, model: Any, **_: object) -> None:
        seen.append(model.name)

    clients = [aws.client(service) for service in ("dynamodb", "kms")]
    for client in clients:
        client.meta.events.register("before-call", note)
    try:
        yield seen
    finally:
        for client in clients:
            client.meta.events.unregister("before-call", note)


@contextmanager
def stale() -> Iterator[list[str]]:
    """Yield a list that gets the name of each operation in this block that may read what was there before a write."""
    seen: list[str] = []

    def note(params: Mapping[str, Any], model: Any, **_: object) -> None:
        asked = params["RequestItems"].values() if model.name == "BatchGetItem" else [params]
        if "IndexName" not in params and not all(each.get("ConsistentRead") for each in asked):
            seen.append(model.name)

    events, operations = aws.client("dynamodb").meta.events, ("GetItem", "BatchGetItem", "Query", "Scan")
    for operation in operations:
        events.register(f"provide-client-params.dynamodb.{operation}", note)
    try:
        yield seen
    finally:
        for operation in operations:
            events.unregister(f"provide-client-params.dynamodb.{operation}", note)
