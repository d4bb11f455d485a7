"""The price of a million requests: calls and units, counted; milliseconds, measured; times a list of prices.

Units are counted by DynamoDB's published rules from the items that go in and out, since no emulator counts those of a
transaction: a read takes one for each 4 KB, a write one for each KB, in a transaction two, and an index one more.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from bench import calls, requests
from bench.calls import Call
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib.storage import aws

MIX = {"get": 70, "list of 100": 10, "create": 10, "change": 5, "certificate": 5}  # hundredths of all requests
COUNT = 100

# Dollars, list prices of us-east-1 in June 2026, on demand, without free tiers; infra/README.md has the others.
PER_READ_UNIT, PER_WRITE_UNIT, PER_KMS_CALL = 0.125e-6, 0.625e-6, 3e-6
PER_GATEWAY_REQUEST, PER_INVOCATION, PER_GB_SECOND = 3.5e-6, 0.2e-6, 13.3334e-6
API_GB, AUTHORIZER_GB, AUTHORIZER_SECONDS = 1.0, 0.5, 0.01


@dataclass(frozen=True)
class Cost:
    """The cost of one request; `seconds` are of CPU on this machine, where a function would also wait for its store."""

    calls: float = 0
    read_units: float = 0
    write_units: float = 0
    kms: float = 0
    seconds: float = 0

    def plus(self, other: "Cost", times: float) -> "Cost":
        """Return the sum of this cost and `times` the other."""
        return Cost(*(mine + times * theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def dollars(self) -> float:
        """Return the price, with the gateway's and the authorizer's; without what is logged and sent."""
        functions = 2 * PER_INVOCATION + PER_GB_SECOND * (API_GB * self.seconds + AUTHORIZER_GB * AUTHORIZER_SECONDS)
        store = PER_READ_UNIT * self.read_units + PER_WRITE_UNIT * self.write_units
        return PER_GATEWAY_REQUEST + functions + store + PER_KMS_CALL * self.kms


def measure(setting: Setting) -> Result:
    costs = {name: _cost(event) for name, event in requests.usual(setting.token).items()}
    mix = Cost()
    for name, share in MIX.items():
        mix = mix.plus(costs[name], share / 100)
    shares = ", ".join(f"{share} % {name}" for name, share in MIX.items())
    rows = [_row(f"a million of: {name}", cost) for name, cost in costs.items()]
    return Result([*rows, _row(f"a million of a usual mix: {shares}", mix)])


def _row(figure: str, cost: Cost) -> Row:
    counted = f"{cost.calls:.2f} calls, {cost.read_units:.1f} + {cost.write_units:.1f} units, {cost.kms:.2f} KMS"
    return Row(figure, f"{counted}, {cost.seconds * 1000:.1f} ms each", f"${cost.dollars * 1e6:.2f}", None)


def _cost(event: Callable[[int], Mapping[str, Any]]) -> Cost:
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event(COUNT))
    before = time.process_time()
    for number in range(COUNT):
        requests.answer(event(number))
    seconds = (time.process_time() - before) / COUNT
    units = [_units(call) for call in made]
    reads, writes = (sum(unit[place] for unit in units) for place in (0, 1))
    return Cost(len(made), reads, writes, sum(call.kind == "kms" for call in made), seconds)


def _units(call: Call) -> tuple[int, int]:
    """Return the units that a call reads and writes."""
    match call.operation:
        case "GetItem":
            return _each(4096, [call.answer.get("Item", {})]), 0
        case "BatchGetItem":
            found = [item for items in call.answer["Responses"].values() for item in items]
            asked = sum(len(wanted["Keys"]) for wanted in call.parameters["RequestItems"].values())
            return _each(4096, found) + asked - len(found), 0  # what is not there costs one
        case "Query":
            return _each(4096, [{"all": {"L": [{"M": item} for item in call.answer["Items"]]}}]), 0
        case "TransactWriteItems":
            return 0, sum(_written(action) for action in call.parameters["TransactItems"])
    if call.service == "kms":
        return 0, 0
    raise ValueError(f"The units of {call.operation} are not known.")


def _written(action: Mapping[str, Any]) -> int:
    """Return the units of one action in a transaction; events stand in an index too. An update pays the whole item."""
    item = action["Put"]["Item"] if "Put" in action else _read(action["Update"])
    return 2 * _each(1024, [item]) + ("indexed" in item) * _each(1024, [item])


def _read(update: Mapping[str, Any]) -> Mapping[str, Any]:
    item: Mapping[str, Any] = aws.client("dynamodb").get_item(TableName=update["TableName"], Key=update["Key"])["Item"]
    return item


def _each(step: int, items: Sequence[Mapping[str, Any]]) -> int:
    return sum(max(1, math.ceil(_size(item) / step)) for item in items)


def _size(item: Mapping[str, Any]) -> int:
    """Return the bytes of an item as DynamoDB counts them: of its names, and of its values."""
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
