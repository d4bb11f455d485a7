"""A store that turns away what is too much for a partition in a second, as DynamoDB does, and no emulator."""

import io
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse

from bench import units
from chalicelib.storage.client import aws

UNITS = 1000  # that a partition key takes in a second


@contextmanager
def limit_units() -> Iterator[tuple[Counter[str], list[str]]]:
    """Turn each transaction away that would take a partition key, of the table or an index, above its units.

    Yield the units that were spent by key, all within one second, and the names of the keys for which it was done. What
    is written is not kept: the store in process copies itself for each transaction.
    """
    spent: Counter[str] = Counter()
    turned_away: list[str] = []

    def hold(params: Any, **_: object) -> Any:
        costs = [_cost(action) for action in json.loads(params["body"], object_hook=_with_bytes)["TransactItems"]]
        hot = [{key for key, units in cost.items() if spent[key] + units > UNITS} for cost in costs]
        if any(hot):
            turned_away.extend(key for keys in hot for key in keys)
            return _build_cancellation([{"Code": "ThrottlingError" if keys else "None"} for keys in hot])
        for key_costs in costs:
            spent.update(key_costs)
        return AWSResponse("http://localhost", 200, {}, io.BytesIO()), {"ResponseMetadata": {"HTTPStatusCode": 200}}

    events = aws.client("dynamodb").meta.events
    events.register("before-call.dynamodb.TransactWriteItems", hold)
    try:
        yield spent, turned_away
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", hold)


def _build_cancellation(reasons: list[dict[str, str]]) -> Any:
    return AWSResponse("http://localhost", 400, {}, io.BytesIO()), {
        "Error": {"Code": "TransactionCanceledException", "Message": ""},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        "CancellationReasons": reasons,
    }


def _cost(action: dict[str, Any]) -> dict[str, int]:
    """Return the units of an action by partition key; of an update those of a small item."""
    ((name, request),) = action.items()
    return units.of_item(request["Item"]) if name == "Put" else {request["Key"]["scope"]["S"]: 2}


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    return {"B": b64decode(value["B"])} if isinstance(value.get("B"), str) else value
