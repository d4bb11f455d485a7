"""Capacity units by DynamoDB's published rules.

A read costs one per 4 KB, a write one per KB, or two in a transaction.

No emulator counts those of a transaction.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.calls import Call
from chalicelib.storage.client import aws

_INDEXES = ("indexed", "acted")  # the key attributes of the table's indexes of events


def of(call: Call) -> tuple[int, int]:
    """Return the units that a call reads and writes."""
    match call.operation:
        case "GetItem":
            return _count_units(4096, [call.answer.get("Item", {})]), 0
        case "BatchGetItem":
            records = [item for items in call.answer["Responses"].values() for item in items]
            count = sum(len(request["Keys"]) for request in call.parameters["RequestItems"].values())
            return _count_units(4096, records) + count - len(records), 0  # a missing item costs one unit
        case "Query":
            return _count_units(4096, [{"all": {"L": [{"M": item} for item in call.answer["Items"]]}}]), 0
        case "TransactWriteItems":
            return 0, sum(_count_written(action) for action in call.parameters["TransactItems"])
    if call.service == "kms":
        return 0, 0
    raise ValueError(f"The units of {call.operation} are not known.")


def by_key(calls: Iterable[Call]) -> Mapping[str, int]:
    """Return the units written by transactions, by partition key. Keys of indexes include their attribute."""
    totals: Counter[str] = Counter()
    for action in (action for call in calls for action in call.parameters.get("TransactItems", ())):
        totals.update(of_item(_item(action)))
    return totals


def of_write(item: Mapping[str, Any], *, factor: int, is_check: bool) -> int:
    """Return the units of a write: `factor` per KB in the table, one in each index.

    A check of a condition is charged as a write, but changes no index.
    """
    each = _count_units(1024, [item])
    return factor * each + (0 if is_check else each * sum(name in item for name in _INDEXES))


def of_item(item: Mapping[str, Any]) -> dict[str, int]:
    """Return an item's units in a transaction, by key. A KB costs two in the table, one in each index."""
    each = _count_units(1024, [item])
    indexes = {f"{name}={item[name]['S']}": each for name in _INDEXES if name in item}
    return {item["scope"]["S"]: 2 * each, **indexes}


def _count_written(action: Mapping[str, Any]) -> int:
    """Return the units of one action in a transaction. An update costs the whole item."""
    return sum(of_item(_item(action)).values())


def _item(action: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the item of an action in a transaction. Read it if the action lacks it."""
    if "Put" in action:
        item: Mapping[str, Any] = action["Put"]["Item"]
        return item
    ((_, request),) = action.items()
    answer: Mapping[str, Any] = aws.client("dynamodb").get_item(TableName=request["TableName"], Key=request["Key"])
    return {**request["Key"], **answer.get("Item", {})}


def _count_units(step: int, items: Sequence[Mapping[str, Any]]) -> int:
    return sum(max(1, math.ceil(_size(item) / step)) for item in items)


def _size(item: Mapping[str, Any]) -> int:
    """Return the bytes of an item by DynamoDB's rules: of its names and its values."""
    return sum(len(name.encode()) + _size_of_value(value) for name, value in item.items())


def _size_of_value(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    match kind:
        case "S" | "B":
            return len(value if isinstance(value, bytes) else value.encode())
        case "N":
            return len(value) // 2 + 1
        case "M":
            return 3 + len(value) + _size(value)
        case "L":
            return 3 + sum(1 + _size_of_value(entry) for entry in value)
        case "SS":
            return sum(len(entry.encode()) for entry in value)
    return 1
