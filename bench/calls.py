"""The calls that the service makes to its store and its vault, seen from botocore's events: counted, and made again."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.session import get_session

from chalicelib.storage import aws

_READS = {"BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"}


@dataclass
class Call:
    """One call, and what the engine says of it when it is asked for the capacity."""

    service: str
    operation: str
    parameters: dict[str, Any]
    answer: dict[str, Any]

    @property
    def kind(self) -> str:
        if self.service != "dynamodb":
            return self.service
        return "read" if self.operation in _READS else "write"

    @property
    def scanned(self) -> int:
        """Return how many items the engine read."""
        return int(self.answer.get("ScannedCount", 1 if "Item" in self.answer else 0))

    @property
    def capacity(self) -> float:
        """Return the capacity units that the engine would charge."""
        return float(self.answer["ConsumedCapacity"]["CapacityUnits"])


@contextmanager
def recording(*services: str) -> Iterator[list[Call]]:
    """Yield a list that grows by each call to the services (DynamoDB when none is named) made inside."""
    calls: list[Call] = []

    def note(params: dict[str, Any], model: Any, **_: object) -> None:
        calls.append(Call(model.service_model.service_name, model.name, copy.deepcopy(params), {}))
        if calls[-1].service == "dynamodb":
            params["ReturnConsumedCapacity"] = "TOTAL"

    def hear(parsed: dict[str, Any], **_: object) -> None:
        calls[-1].answer = parsed

    heard = {service: aws.client(service).meta.events for service in services or ("dynamodb",)}
    for service, events in heard.items():
        events.register(f"provide-client-params.{service}", note)
        events.register(f"after-call.{service}", hear)
    yield calls
    for service, events in heard.items():
        events.unregister(f"provide-client-params.{service}", note)
        events.unregister(f"after-call.{service}", hear)


def repeat(calls: Sequence[Call], client: Callable[[str], Any] = aws.client) -> None:
    """Make the same calls, by the service's client or by another, and nothing else."""
    for call in calls:
        getattr(client(call.service), xform_name(call.operation))(**call.parameters)


@cache
def plain(service: str) -> Any:
    """Return a client of a service as botocore makes it."""
    return get_session().create_client(service)
