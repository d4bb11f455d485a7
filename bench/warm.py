"""A request to the warm app in this process, against the store calls that it makes, made by the same client alone."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench import calls, requests, side_by_side


def cpu(
    event: Mapping[str, Any], rounds: int, besides: Callable[[], object] = lambda: None
) -> tuple[float, float, int]:
    """Return CPU seconds of the request, and of its raw calls with what is done `besides` them, and their number."""
    requests.answer(event)  # what is made or opened once is there from here on
    made = _made(event)

    def raw() -> None:
        calls.repeat(made)
        besides()

    ours, theirs = side_by_side.medians((lambda: requests.answer(event), raw), rounds, time.process_time)
    if [call.operation for call in _made(event)] != [call.operation for call in made]:
        raise RuntimeError("In the end the request made other calls than those that it is measured against.")
    return ours, theirs, len(made)


def _made(event: Mapping[str, Any]) -> list[calls.Call]:
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event)
    return made
