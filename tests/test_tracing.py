"""Traces: which headers are accepted, and what is passed on."""

import re

import pytest

from chalicelib import tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_trace_is_passed_on_with_a_span_of_its_own() -> None:
    assert tracing.follow(f"00-{TRACE}-{SPAN}-01") == TRACE
    passed = tracing.current()
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-01", passed)
    assert SPAN not in passed
    tracing.leave()
    assert tracing.current() == ""


@pytest.mark.parametrize(
    "header",
    [
        "",
        "x",
        f"01-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_a_malformed_header_is_ignored(header: str) -> None:
    assert (tracing.follow(header), tracing.current()) == ("", "")
