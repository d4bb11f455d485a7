"""The lines that gateway and control write to stderr."""

import json
import re

import pytest

from edge.process import log


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b31m", "\x7f", "\u202egnp.exe", "two\nlines", "Ä"])
def test_a_line_holds_nothing_that_could_move_a_terminals_cursor(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.event("resource_refused", reason=text)
    line = capsys.readouterr().err
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert json.loads(line)["reason"] == text


def test_a_failure_has_the_place_and_not_the_text_of_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        json.loads("a secret")
    except ValueError as error:
        log.failure("name_failed", error, account="acct_1")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["account"], line["error"]) == ("name_failed", "acct_1", "JSONDecodeError")
    assert re.fullmatch(r"decoder\.py:[0-9]+", line["at"])
    assert "secret" not in str(line)
