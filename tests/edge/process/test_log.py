"""The lines that gateway and control write to stderr."""

import json

import pytest

from edge.process import log


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b31m", "\x7f", "\u202egnp.exe", "two\nlines", "Ä"])
def test_a_line_holds_nothing_that_could_move_a_terminals_cursor(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.event("resource_refused", reason=text)
    line = capsys.readouterr().err
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert json.loads(line)["reason"] == text
