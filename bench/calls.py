"""The service's calls to DynamoDB and KMS, recorded by botocore's events. They can be repeated."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.session import get_session

from chalicelib.storage.client import aws

_READS = {"BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems"}
_CALL = "recorded_call"


@dataclass
class Call:
    """One call and its answer with the consumed capacity."""

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
        """Return the number of items that the engine read."""
        return int(self.answer.get("ScannedCount", 1 if "Item" in self.answer else 0))

    @property
    def capacity(self) -> float:
        """Return the consumed capacity units."""
        return float(self.answer["ConsumedCapacity"]["CapacityUnits"])


@contextmanager
def recording(*services: str) -> Iterator[list[Call]]:
    """Yield a list of all calls to the services (default: DynamoDB) in this block."""
    calls: list[Call] = []

    def on_request(params: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        call = Call(model.service_model.service_name, model.name, copy.deepcopy(params), {})
        calls.append(call)
        context[_CALL] = call  # other threads call at the same time
        if call.service == "dynamodb":
            params["ReturnConsumedCapacity"] = "TOTAL"

    def on_answer(parsed: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context[_CALL].answer = parsed

    recorded = {service: aws.client(service).meta.events for service in services or ("dynamodb",)}
    for service, events in recorded.items():
        events.register(f"provide-client-params.{service}", on_request)
        events.register(f"after-call.{service}", on_answer)
    yield calls
    for service, events in recorded.items():
        events.unregister(f"provide-client-params.{service}", on_request)
        events.unregister(f"after-call.{service}", on_answer)


def repeat(calls: Sequence[Call], client: Callable[[str], Any] = aws.client) -> None:
    """Repeat the calls, with the service's client or another."""
    for call in calls:
        getattr(client(call.service), xform_name(call.operation))(**call.parameters)


@cache
def plain(service: str) -> Any:
    """Return botocore's unmodified client of a service."""
    return get_session().create_client(service)
