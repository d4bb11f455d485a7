"""What encoding costs, in calls instead of seconds. `python -m bench edge_encoding` measures the time."""

import sys
from collections.abc import Callable

import pytest
from google.protobuf import json_format

from edge.envoy.resources import MESSAGES
from tests.edge.envoy import encodings, messages
from tests.edge.envoy.encodings import Build

_MAX_RATIO = 0.15  # of the calls that parsing the same message takes


def count_calls(action: Callable[[], object]) -> int:
    """Return the number of calls of functions, built-in ones too."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("build", encodings.KINDS.values(), ids=encodings.KINDS)
def test_a_resource_is_copied_from_a_template_instead_of_parsed(build: Build) -> None:
    first, second = build(1), build(2)
    assert first
    assert second
    assert first.encoded != second.encoded
    content, message = messages.decode(first), MESSAGES[first.key.kind]
    parsing = count_calls(lambda: json_format.ParseDict(content, message()).SerializeToString(deterministic=True))
    building = count_calls(lambda: build(3))
    assert building <= _MAX_RATIO * parsing
