"""Requests to the warm app in this process, against their store calls, made again by the same client alone.

The caller of the GET is looked up; the list and the certificate come from behind the gateway's authorizer.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench import calls, requests, results, side_by_side, signing
from bench.engines import Setting
from bench.results import Result, Row

Event = Mapping[str, Any]


def measure(setting: Setting) -> Result:
    made = requests.usual(setting.token)
    known = requests.usual(setting.token, setting.context)
    return Result(
        [
            _row(1.35, "GET one, CPU: its 2 raw reads", made["get"](0), 400),
            _row(1.6, "list of 100, CPU: its 1 raw query", known["list of 100"](0), 150),
            _row(1.5, "POST certificate, CPU: 2 raw calls + a signature", known["certificate"](0), 300, signing.sign),
        ]
    )


def _row(bound: float, figure: str, event: Event, rounds: int, besides: Callable[[], object] = lambda: None) -> Row:
    """Compare the CPU of a request with that of its raw calls and of what is done `besides` them."""
    requests.answer(event)  # what is made or opened once is there from here on
    made = _made(event)

    def raw() -> None:
        calls.repeat(made)
        besides()

    ours, theirs = side_by_side.medians((lambda: requests.answer(event), raw), rounds, time.process_time)
    if [call.operation for call in _made(event)] != [call.operation for call in made]:
        raise RuntimeError("In the end the request made other calls than those that it is measured against.")
    return results.at_most(bound, figure, ours, theirs, results.ms)


def _made(event: Event) -> list[calls.Call]:
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event)
    return made
