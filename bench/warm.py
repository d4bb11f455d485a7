"""Requests to the warm app in this process, against their store calls alone, made again by a client of botocore's.

The caller of the GET is looked up; the others come from behind the gateway's authorizer. A client of botocore's is as
botocore makes it: the service's own, which has less to do, is a row without a bound.
"""

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from bench import calls, requests, results, side_by_side, signing
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib.storage import aws

Event = Mapping[str, Any]


def measure(setting: Setting) -> Result:
    made = requests.usual(setting.token)
    known = requests.usual(setting.token, setting.context)
    return Result(
        [
            *_rows("GET one, CPU: its 2 raw reads", made["get"], 400),
            *_rows("list of 100, CPU: its 1 raw query", known["list of 100"], 150),
            *_rows("PATCH, CPU: its raw read and write", known["change"], 300),
            *_rows("POST certificate, CPU: 2 raw calls + a signature", known["certificate"], 300, signing.sign),
        ]
    )


def _rows(
    figure: str, event: Callable[[int], Event], rounds: int, besides: Callable[[], object] = lambda: None
) -> list[Row]:
    """Compare the CPU of a request with that of its raw calls and of what is done `besides` them."""
    numbers = count()
    requests.answer(event(next(numbers)))  # what is made or opened once is there from here on
    made = _made(event(next(numbers)))

    def raw(client: Callable[[str], Any]) -> None:
        calls.repeat(made, client)
        besides()

    actions = (lambda: requests.answer(event(next(numbers))), lambda: raw(calls.plain), lambda: raw(aws.client))
    ours, plain, own = side_by_side.medians(actions, rounds, time.process_time)
    if [call.operation for call in _made(event(next(numbers)))] != [call.operation for call in made]:
        raise RuntimeError("In the end the request made other calls than those that it is measured against.")
    return [
        results.at_most(1.25, figure, ours, plain, results.ms),
        results.reported("… by the service's own client", ours, own, results.ms),
    ]


def _made(event: Event) -> list[calls.Call]:
    """Return the calls of a request, which can be made again: a change's revision is then another than it was."""
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event)
    actions = [action for call in made for action in call.parameters.get("TransactItems", ())]
    for update in (action["Update"] for action in actions if "Update" in action):
        update["ConditionExpression"] = update["ConditionExpression"].replace("#revision =", "#revision <>")
    return made
