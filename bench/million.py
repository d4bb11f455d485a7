"""The price of a million requests, from counted calls and units, measured CPU time, and list prices.

Units are counted by DynamoDB's published rules from the items that go in and out, since no emulator counts those of a
transaction: a read takes one for each 4 KB, a write one for each KB, in a transaction two, and an index one more.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from bench import calls, requests, units
from bench.engines import Setting
from bench.results import Result, Row

MIX = {"get": 70, "list of 100": 10, "create": 10, "change": 5, "certificate": 5}  # percent of requests
COUNT = 100

# Dollars, list prices of us-east-1 in June 2026, on demand, without free tiers; bench/costs.py has the others.
PER_READ_UNIT, PER_WRITE_UNIT, PER_KMS_CALL = 0.125e-6, 0.625e-6, 3e-6
PER_GATEWAY_REQUEST, PER_INVOCATION, PER_GB_SECOND = 3.5e-6, 0.2e-6, 13.3334e-6
API_GB, AUTHORIZER_GB, AUTHORIZER_SECONDS = 1.0, 0.5, 0.01


@dataclass(frozen=True)
class Cost:
    """The cost of one request. `seconds` is CPU time here; a function would also wait for its store."""

    calls: float = 0
    read_units: float = 0
    write_units: float = 0
    kms: float = 0
    seconds: float = 0

    def plus(self, other: "Cost", times: float) -> "Cost":
        """Return this cost plus `times` the other."""
        return Cost(*(mine + times * theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def dollars(self) -> float:
        """Return the price with gateway and authorizer, without logs and data transfer."""
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
    with calls.recording("dynamodb", "kms") as trace:
        requests.answer(event(COUNT))
    before = time.process_time()
    for number in range(COUNT):
        requests.answer(event(number))
    seconds = (time.process_time() - before) / COUNT
    costs = [units.of(call) for call in trace]
    reads, writes = (sum(unit[index] for unit in costs) for index in (0, 1))
    return Cost(len(trace), reads, writes, sum(call.kind == "kms" for call in trace), seconds)
