"""The wait for a child that starts: as long as it reports progress, and no longer."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from edge.process.children import Child, Program
from edge.process.progress import Progress
from edge.process.settings import SettingError
from edge.process.starting import wait_until_ready

_REPORTS = """
import pathlib, socket, sys, time
from edge.process.progress import Progress
progress = Progress(pathlib.Path(sys.argv[1]), "it")
for number in range(int(sys.argv[2])):
    progress.report(f"reading names ({number})")
    time.sleep(0.1)
"""
_LISTENS = """
listening = socket.socket(socket.AF_UNIX)
listening.bind(str(pathlib.Path(sys.argv[1]) / "socket"))
listening.listen()
"""


def start(
    folder: Path, code: str, reports: int, *, timeout: float, notice: float = 60, log: Path | None = None
) -> None:
    async def run() -> None:
        child = Child(Program("it", [sys.executable, "-c", code, str(folder), str(reports)], log))
        await child.start()
        try:
            await wait_until_ready(child, folder / "socket", Progress(folder, "it"), timeout=timeout, notice=notice)
        finally:
            await child.end()

    asyncio.run(run())


def test_a_child_may_take_as_long_as_it_reports_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(tmp_path, f"{_REPORTS}{_LISTENS}time.sleep(60)", 60, timeout=4, notice=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert all(re.fullmatch(r"Waiting for it( \(reading names \(\d+\)\))?: \d+ s …", line) for line in lines)


def test_a_child_without_progress_is_given_up_with_what_it_did_last(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    with pytest.raises(SettingError) as raised:
        start(tmp_path, f"{_REPORTS}time.sleep(60)", 1, timeout=3, log=log)
    match = re.fullmatch(
        r"it did not start: (\S+) did not answer for [3-9] s, and its last progress, 3 s ago, was: "
        r"reading names \(0\)\. Its log is (\S+)\.",
        str(raised.value),
    )
    assert match
    assert match.groups() == (str(tmp_path / "socket"), str(log))


def test_a_child_that_reports_nothing_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"for 1 s, and it reported no progress\. Its messages are above\.$"):
        start(tmp_path, "import time; time.sleep(60)", 0, timeout=1)


def test_a_child_that_ends_is_given_up_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^it did not start: it ended\. Its messages are above\.$"):
        start(tmp_path, "", 0, timeout=30)
