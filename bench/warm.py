"""Requests to the warm app in this process, compared with only their store calls by botocore's unmodified client.

The service's own client does less work and is a row without a bound. GETs have limits and metrics, and may take 1.02 of
the CPU of commit 98babd06, which had neither. A GET also looks up its caller, if it is not behind the authorizer. The
other requests are behind it.
"""

import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from bench import calls, requests, results, side_by_side, signing
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib.model.limits import rates
from chalicelib.storage.client import aws

Event = Mapping[str, Any]
_LIMITS_AND_METRICS = {
    rates.SETTINGS[rates.REQUESTS]: str(rates.MAX_RATE),
    rates.SETTINGS[rates.BURST]: str(rates.MAX_RATE),
    "METRICS_NAMESPACE": "bench",
}
_OTHERS = {f"BENCH_{name}": value for name, value in _LIMITS_AND_METRICS.items()}  # the service ignores them
# of commit 98babd06, without and with the authorizer's context
_GET_BEFORE, _AUTHORIZED_BEFORE = 0.76, 0.87


def measure(setting: Setting) -> Result:
    aws.call_directly("dynamodb")  # like a function
    token_events = requests.usual(setting.token)
    events = requests.usual(setting.token, setting.context)
    rows = [
        *_rows(1.25, "list of 100, CPU: its 1 raw query", events["list of 100"], 150),
        *_rows(1.25, "PATCH, CPU: its raw read and write", events["change"], 300),
        *_rows(1.25, "POST certificate, CPU: 2 raw calls + a signature", events["certificate"], 300, signing.sign),
        _row_of_limits(events["get"](0)),
    ]
    os.environ.update(_LIMITS_AND_METRICS)
    gets = [
        *_rows(1.02 * _GET_BEFORE, "GET one, CPU: its 2 raw reads", token_events["get"], 400),
        *_rows(1.02 * _AUTHORIZED_BEFORE, "GET one after the authorizer, CPU: its raw read", events["get"], 400),
    ]
    return Result([*gets, *rows])


def _rows(
    bound: float, figure: str, event: Callable[[int], Event], rounds: int, besides: Callable[[], object] = lambda: None
) -> list[Row]:
    """Compare the CPU of a request with the CPU of its raw calls and of `besides`."""
    numbers = count()
    requests.answer(event(next(numbers)))  # fills caches before the measurement
    trace = _record_calls(event(next(numbers)))

    def raw(client: Callable[[str], Any]) -> None:
        calls.repeat(trace, client)
        besides()

    actions = (lambda: requests.answer(event(next(numbers))), lambda: raw(calls.plain), lambda: raw(aws.client))
    ours, plain_client, service_client = side_by_side.medians(actions, rounds, time.process_time)
    if [call.operation for call in _record_calls(event(next(numbers)))] != [call.operation for call in trace]:
        raise RuntimeError("The request's last calls differ from the calls that it is compared with.")
    return [
        results.at_most(round(bound, 3), figure, ours, plain_client, results.ms),
        results.reported("… by the service's own client", ours, service_client, results.ms),
    ]


def _row_of_limits(event: Event) -> Row:
    """Compare the CPU of a request with limits and metrics with its CPU without."""

    def answer(settings: Mapping[str, str]) -> None:
        os.environ.update(settings)
        requests.answer(event)
        for name in settings:
            del os.environ[name]

    limited, plain = side_by_side.medians(
        (lambda: answer(_LIMITS_AND_METRICS), lambda: answer(_OTHERS)), 1000, time.process_time
    )
    return results.reported("GET one, limits and metrics on, CPU: off", limited, plain, results.ms)


def _record_calls(event: Event) -> list[calls.Call]:
    """Return the calls of a request, changed so that they can be repeated with the same revision."""
    with calls.recording("dynamodb", "kms") as trace:
        requests.answer(event)
    actions = [action for call in trace for action in call.parameters.get("TransactItems", ())]
    for update in (action["Update"] for action in actions if "Update" in action):
        update["ConditionExpression"] = update["ConditionExpression"].replace("#revision =", "#revision <>")
    return trace
