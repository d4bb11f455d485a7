"""The costs in docs/costs.md: counted units of DynamoDB and KMS, and their prices."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench import calls, units
from bench.million import (
    API_GB,
    AUTHORIZER_GB,
    AUTHORIZER_SECONDS,
    PER_GATEWAY_REQUEST,
    PER_GB_SECOND,
    PER_INVOCATION,
    PER_KMS_CALL,
    PER_READ_UNIT,
    PER_WRITE_UNIT,
)
from chalicelib.storage.client import aws

PER_LOGGED_GB, PER_SENT_GB, LOGGED_GB = 0.5, 0.09, 1.6e-6
MONTH = 30 * 24 * 60 * 60  # seconds
_MILLION = 1e6

Items = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class Units:
    """Units that were read and written, and calls of KMS."""

    reads: float = 0
    writes: float = 0
    kms: float = 0

    def __add__(self, other: "Units") -> "Units":
        return Units(self.reads + other.reads, self.writes + other.writes, self.kms + other.kms)

    def times(self, count: float) -> "Units":
        return Units(self.reads * count, self.writes * count, self.kms * count)

    @property
    def dollars(self) -> float:
        return PER_READ_UNIT * self.reads + PER_WRITE_UNIT * self.writes + PER_KMS_CALL * self.kms


def counted(act: Callable[[], object]) -> Units:
    """Return the units of an action in this process."""
    before = _items()
    with calls.recording("dynamodb", "kms") as trace:
        act()
    after = _items()
    total = Units(kms=sum(call.kind == "kms" for call in trace))
    for call in trace:
        if call.kind == "read":
            total += Units(reads=units.of(call)[0])
        elif call.kind == "write":
            total += Units(writes=sum(_count_written(action, before, after) for action in _actions(call)))
    return total


def request_row(name: str, cost: Units, *, seconds: float = 0.015, sent_kb: float = 2) -> str:
    """Return the row of a request, with the full cost of a million."""
    functions = 2 * PER_INVOCATION + PER_GB_SECOND * (API_GB * seconds + AUTHORIZER_GB * AUTHORIZER_SECONDS)
    around = PER_GATEWAY_REQUEST + functions + PER_LOGGED_GB * LOGGED_GB + PER_SENT_GB * sent_kb / 1e6
    return _row(name, cost, (cost.dollars * _MILLION, (cost.dollars + around) * _MILLION))


def row(name: str, cost: Units, *, count: float = _MILLION) -> str:
    """Return the row of another action, with the cost of `count` of them."""
    return _row(name, cost, (cost.dollars * count,))


def _row(name: str, cost: Units, dollars: Iterable[float]) -> str:
    counts = (f"{count:,.0f}" if count else "—" for count in (cost.reads, cost.writes, cost.kms))
    return f"| {' | '.join([name, *counts, *(f'{price:.2f}' for price in dollars)])} |"


def _actions(call: calls.Call) -> list[Mapping[str, Any]]:
    """Return the writes of a call like actions of a transaction, with cost factors."""
    if call.operation == "TransactWriteItems":
        return [{"factor": 2, **action} for action in call.parameters["TransactItems"]]
    return [{"factor": 1, call.operation.removesuffix("Item"): call.parameters}]


def _count_written(action: Mapping[str, Any], before: Items, after: Items) -> int:
    """Return the units of a write, including indexes. The larger of both versions of the item counts."""
    ((_, request),) = ((name, value) for name, value in action.items() if name != "factor")
    key = request.get("Key") or request["Item"]
    item_key = key["scope"]["S"], key["id"]["S"]
    versions = [key, *(items[item_key] for items in (before, after) if item_key in items)]
    return max(units.of_write(item, factor=action["factor"], is_check="ConditionCheck" in action) for item in versions)


def _items() -> Items:
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    return {(item["scope"]["S"], item["id"]["S"]): item for page in pages for item in page["Items"]}
