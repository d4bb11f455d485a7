"""The operator's commands as a whole: help, version, routes and exit statuses."""

import re
import subprocess
import sys

import pytest

from app import app
from chalicelib.http.middleware import ANY_METHOD
from tests.conftest import ROOT
from tests.operator.commands import Output, expect_failure, run_without_errors


def test_routes_are_all_that_the_app_serves(capsys: Output) -> None:
    served = {
        f"{method:6} {path}" for path, methods in app.routes.items() for method in methods if method != ANY_METHOD
    }
    lines = run_without_errors(capsys, "routes")
    assert {*lines} == served
    assert len(lines) == len(served)
    assert {"GET    /api_keys", "PATCH  /ssh_certificate_authorities/{id}"} <= served


@pytest.mark.parametrize("command", [(), ("keys",), ("keys", "issue")], ids=" ".join)
def test_every_command_explains_itself(capsys: Output, command: tuple[str, ...]) -> None:
    assert expect_failure(*command, "--help") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: python -m chalicelib {' '.join(command)}".rstrip())
    assert len(out.splitlines()) >= 5


def test_the_version_is_that_of_the_newest_release(capsys: Output) -> None:
    assert expect_failure("--version") == 0
    version = capsys.readouterr().out.removeprefix("tunnel-edge ").strip()
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert re.fullmatch(rf"## (Unreleased|{re.escape(version)}\b.*)", newest)


@pytest.mark.parametrize("arguments", [(), ("accounts",), ("accounts", "drop"), ("keys", "issue"), ("routes", "more")])
def test_a_command_that_is_not_whole_is_a_usage_error(capsys: Output, arguments: tuple[str, ...]) -> None:
    assert expect_failure(*arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m chalicelib")


def test_a_pipe_that_is_closed_early_is_no_error() -> None:
    command = f"{sys.executable} -m chalicelib routes --json | head -1; exit ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (process.returncode, process.stderr, len(process.stdout.splitlines())) == (0, "", 1)
