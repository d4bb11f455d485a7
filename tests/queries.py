"""The calls that the service makes to its store, seen from botocore's events."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chalicelib.storage.client import aws


@contextmanager
def queries() -> Iterator[list[str]]:
    """Yield a list that gets the scope of each Query in this block."""
    scopes: list[str] = []

    def note(params: Mapping[str, Any], **_: object) -> None:
        scopes.append(params["ExpressionAttributeValues"][":scope"]["S"])

    with _listen(note, "provide-client-params.dynamodb.Query"):
        yield scopes


@contextmanager
def reads() -> Iterator[list[int]]:
    """Yield a list that gets how many items each Query in this block read."""
    counts: list[int] = []

    def note(parsed: Mapping[str, Any], **_: object) -> None:
        counts.append(parsed["ScannedCount"])

    with _listen(note, "after-call.dynamodb.Query"):
        yield counts


@contextmanager
def calls() -> Iterator[list[str]]:
    """Yield a list that gets the name of each operation of DynamoDB and KMS in this block, in order."""
    names: list[str] = []

    def note(params: object, model: Any, **_: object) -> None:
        names.append(model.name)

    with _listen(note, "before-call.dynamodb"), _listen(note, "before-call.kms", service="kms"):
        yield names


@contextmanager
def stale() -> Iterator[list[str]]:
    """Yield a list that gets the name of each operation in this block that may read what was there before a write."""
    names: list[str] = []

    def note(params: Mapping[str, Any], model: Any, **_: object) -> None:
        requests = params["RequestItems"].values() if model.name == "BatchGetItem" else [params]
        if "IndexName" not in params and not all(request.get("ConsistentRead") for request in requests):
            names.append(model.name)

    operations = ("GetItem", "BatchGetItem", "Query", "Scan")
    with _listen(note, *(f"provide-client-params.dynamodb.{operation}" for operation in operations)):
        yield names


@contextmanager
def _listen(note: Callable[..., None], *names: str, service: str = "dynamodb") -> Iterator[None]:
    """Have a function called at events of a service's client."""
    events = aws.client(service).meta.events
    for name in names:
        events.register(name, note)
    try:
        yield
    finally:
        for name in names:
            events.unregister(name, note)
