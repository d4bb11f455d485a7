"""A run of the benchmarks measures what can be measured, and says what could not be."""

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.needs import need

USUAL = ("get", "list of 100", "create", "certificate")


def test_a_figure_that_fails_is_a_row_that_says_so_and_the_others_are_measured() -> None:
    need("the embedded cloud")
    command = [sys.executable, "-m", "bench", "nothing", "store_calls"]
    table = ROOT / "build" / "bench" / "table.md"
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    lines = [line for line in process.stdout.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[0] for row in rows[1:]] == [
        "nothing",
        *(f"store calls, {name}: the fewest" for name in (*USUAL, "page of 100 edges")),
    ]
    assert rows[1][1:] == ["failed", "", "", "", ""]
    assert {row[5] for row in rows[2:]} == {"yes"}
    assert process.stderr.endswith(f"\nThese figures could not be measured: nothing. All others are in {table}.\n")
    assert table.read_text() == process.stdout
    assert process.returncode == 1


@pytest.mark.parametrize("target", ["bench", "bench-profile"])
def test_the_environments_of_all_figures_are_made_before_the_first_is_measured(target: str) -> None:
    rules = (ROOT / "Makefile").read_text()
    match = re.search(rf"^{target}: (.*) ##", rules, re.M)
    assert match
    assert {".venv/bench", ".venv-cloud/ready", ".venv-edge/ready", "bench/node_modules/ready"} <= {*match[1].split()}
