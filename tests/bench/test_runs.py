"""How a run of the benchmarks ends: what it leaves behind, and what it says of what it could not measure."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from tests.conftest import ROOT, processes_with


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The environment of a run whose ssh-keygen is a script, which the test writes, and which has a Node.js."""
    (tmp_path / "temporary").mkdir()
    program(tmp_path / "node", "exit 1")
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "temporary")}


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def started(settings: Mapping[str, str], *figures: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", *figures]
    return subprocess.Popen(
        command, cwd=ROOT, env=dict(settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path, settings: dict[str, str]) -> None:
    program(tmp_path / "ssh-keygen", f"touch {tmp_path}/asked; exec sleep 60")
    run = started({**settings, "RUN": str(tmp_path)}, "certificates_per_second")
    while not (tmp_path / "asked").exists():
        assert run.poll() is None
        Event().wait(0.05)
    assert len(processes_with(f"RUN={tmp_path}")) > 3  # the run, its cloud, its figure, the server of that
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=30)
    assert (run.returncode, *said) == (1, "", "Stopped: nothing of it is kept.\n")
    assert processes_with(f"RUN={tmp_path}") == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_figure_that_fails_is_a_row_that_says_so_and_the_others_are_measured(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    program(tmp_path / "ssh-keygen", "exit 1")
    run = started(settings, "certificates_per_second", "store_calls")
    told, errors = run.communicate(timeout=60)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == [
        "certificates_per_second",
        *(f"store calls, {name}: the fewest" for name in ("get", "list", "create", "certificate")),
    ]
    assert rows[1][1:] == ["failed", "", "", "", ""]
    assert {row[5] for row in rows[2:]} == {"yes"}
    assert "returned non-zero exit status 1" in errors
    assert errors.endswith("\nNot every figure could be measured: nothing of it is kept.\n")
    assert run.returncode == 1


def test_a_program_that_is_missing_is_told_before_anything_is_measured(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    run = started({**settings, "PATH": str(tmp_path)}, "store_calls")
    said = run.communicate(timeout=30)
    assert said == ("", "ssh-keygen is needed for the benchmarks: install OpenSSH's client.\n")
    assert run.returncode == 1
