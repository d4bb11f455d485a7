"""Encoding of Envoy's resources: built from templates, compared with parsing the same message from JSON."""

import itertools
import json
import time
from collections.abc import Callable

from google.protobuf import json_format

from bench import results, side_by_side
from bench.engines import Setting
from bench.results import Result, Row
from edge.envoy.resources import MESSAGES
from tests.edge.envoy import encodings, messages
from tests.edge.envoy.encodings import Build

_ROUNDS, _BUILT, _PARSED = 31, 50, 5
_BOUND = 0.15


def measure(_setting: Setting) -> Result:
    return Result([_compare(name, build) for name, build in encodings.KINDS.items()])


def _compare(name: str, build: Build) -> Row:
    """Compare the CPU of one resource. Each build is of another resource."""
    if (first := build(0)) is None:
        raise ValueError(name)
    content, message = json.dumps(messages.decode(first)), MESSAGES[first.key.kind]
    numbers = itertools.count()

    def parse() -> None:
        json_format.Parse(content, message()).SerializeToString(deterministic=True)

    actions = [_repeat(_BUILT, lambda: build(next(numbers))), _repeat(_PARSED, parse)]
    ours, parsed = side_by_side.medians(actions, _ROUNDS, time.process_time)
    return results.at_most(_BOUND, f"encoding, {name}: parsing JSON", ours / _BUILT, parsed / _PARSED, results.us)


def _repeat(count: int, action: Callable[[], object]) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(count):
            action()

    return repeated
