"""A run of the benchmarks measures what can be measured, and says what could not be."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.needs import need


def test_a_figure_that_fails_is_a_row_that_says_so_and_the_others_are_measured(tmp_path: Path) -> None:
    need("the embedded cloud")
    for program in ("node", "ssh-keygen"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / program).chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-m", "bench", "nothing", "store_calls"],
        cwd=ROOT, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[0] for row in rows[1:]] == [
        "nothing",
        *(f"store calls, {name}: the fewest" for name in ("get", "list of 100", "create", "certificate")),
    ]
    assert rows[1][1:] == ["failed", "", "", "", ""]
    assert {row[5] for row in rows[2:]} == {"yes"}
    assert done.stderr.endswith("\nNot every figure could be measured: nothing of it is kept.\n")
    assert done.returncode == 1
