"""Abbreviated options, and completion in a shell."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.operator.commands import Output, expect_failure, run_without_errors


def test_the_beginning_of_an_option_stands_for_it_unless_another_begins_like_it(capsys: Output) -> None:
    assert run_without_errors(capsys, "accounts", "create", "acme", "--adm", "alice", "--exp=90d")
    assert [json.loads(line)["name"] for line in run_without_errors(capsys, "accounts", "list", "--js")] == ["acme"]
    assert (
        expect_failure("names", "forget-settings", "--")
        == "This table stores no TUNNEL_DOMAIN, so there is nothing to forget."
    )
    for option in ("--no-admin", "-adm", "--e-x"):
        assert expect_failure("accounts", "create", "other", option, "alice") == 2
        assert "error: No such option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("acc", {"accounts"}),
        ("keys ", {"issue", "list", "offboard", "revoke"}),
        ("keys issue acct_1 usr_1 --exp", {"--expires-in"}),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, completed: set[str]) -> None:
    count = str(len(words.split(" ")))
    completion = {"_CHALICELIB_COMPLETE": "bash_complete", "COMP_WORDS": f"chalicelib {words}", "COMP_CWORD": count}
    command, environment = [sys.executable, "-m", "chalicelib"], {**os.environ, **completion}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert {line.removeprefix("plain,") for line in process.stdout.splitlines()} == completed
