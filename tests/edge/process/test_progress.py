"""The progress of a process, in a file that its supervisor reads."""

import asyncio
from pathlib import Path

import pytest

from edge.process.progress import Heartbeat, Progress


def test_each_report_is_read_once(tmp_path: Path) -> None:
    writer, reader = Progress(tmp_path, "control"), Progress(tmp_path, "control")
    assert reader.read_new() == ""
    writer.report("loading")
    assert [reader.read_new(), reader.read_new()] == ["loading", ""]
    writer.report("serving")
    assert [reader.read_new(), reader.read_new()] == ["serving", ""]
    assert Progress(tmp_path, "gateway").read_new() == ""


def test_the_report_of_an_earlier_process_can_be_forgotten(tmp_path: Path) -> None:
    Progress(tmp_path, "control").report("serving")
    new_progress = Progress(tmp_path, "control")
    new_progress.clear()
    new_progress.clear()
    assert new_progress.read_new() == ""


def test_a_process_that_serves_says_so_unless_the_disk_is_full(tmp_path: Path) -> None:
    asyncio.run(Progress(tmp_path, "control").report_alive())
    assert (tmp_path / "control.progress").read_text() == "serving"
    with pytest.raises(OSError, match="missing"):
        asyncio.run(Progress(tmp_path / "missing", "control").report_alive())


def test_silence_lasts_since_the_last_report(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "control")
    heartbeat = Heartbeat(Progress(tmp_path, "control"))
    while (silence := heartbeat.silence()) < 0.05:
        pass
    progress.report("serving")
    assert heartbeat.silence() < silence
