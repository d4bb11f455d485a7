"""The progress of a process, in a file that its supervisor reads."""

import asyncio
from contextlib import suppress
from pathlib import Path

from edge.process.progress import Heartbeat, Progress


def test_each_report_is_read_once(tmp_path: Path) -> None:
    written, read = Progress(tmp_path, "control"), Progress(tmp_path, "control")
    assert read.read_new() == ""
    written.report("loading")
    assert [read.read_new(), read.read_new()] == ["loading", ""]
    written.report("serving")
    assert [read.read_new(), read.read_new()] == ["serving", ""]
    assert Progress(tmp_path, "gateway").read_new() == ""


def test_the_report_of_an_earlier_process_can_be_forgotten(tmp_path: Path) -> None:
    Progress(tmp_path, "control").report("serving")
    started = Progress(tmp_path, "control")
    started.clear()
    started.clear()
    assert started.read_new() == ""


def test_a_process_that_serves_reports_at_once_and_survives_a_full_disk(tmp_path: Path) -> None:
    async def serve(folder: Path) -> None:
        async with asyncio.timeout(0.05):
            await Progress(folder, "control").report_alive()

    for folder in (tmp_path, tmp_path / "missing"):
        with suppress(TimeoutError):
            asyncio.run(serve(folder))
    assert (tmp_path / "control.progress").read_text() == "serving"


def test_silence_lasts_since_the_last_report(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "control")
    heartbeat = Heartbeat(Progress(tmp_path, "control"))
    while (silence := heartbeat.silence()) < 0.05:
        pass
    progress.report("serving")
    assert heartbeat.silence() < silence
