"""Parallel scans of the table, in segments. Each segment has a file for its results and its position.

So a scan needs the memory of a few pages, and continues after a crash: results after the last position in a file are
removed and read again.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chalicelib.operator.command_line import CommandError
from chalicelib.storage.client import queries
from chalicelib.storage.client.queries import Segment

SEGMENTS = 16
PAUSE = 5.0  # seconds between two reports of progress
_MARK = "@"  # the first character of lines with a scan position; lines with results must not begin with it
_PLAN = "plan.json"
_NONE: Mapping[str, Any] = {}

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Selection:
    """The records and attributes that a scan reads.

    `expressions` are the filter and the projection as parameters of DynamoDB. `values` are the values to which the
    filter refers.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    expressions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ScanFolder:
    """The folder with the files of one scan. `purpose` names the scan. A folder of another scan is refused."""

    path: Path
    purpose: Mapping[str, str]

    def open(self) -> int:
        """Create the folder if it does not exist. Return the number of its segments. Raises CommandError."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        file = self.path / _PLAN
        settings = {**self.purpose, "segments": SEGMENTS}
        if not file.exists():
            part = file.with_suffix(".new")
            part.write_text(json.dumps(settings))
            part.replace(file)
        plan = json.loads(file.read_text())
        if {**plan, "segments": 0} != {**settings, "segments": 0}:
            raise CommandError(
                f"The folder {self.path} has the progress of another run ({json.dumps(plan)}): choose another folder."
            )
        return int(plan["segments"])

    def lines(self) -> Iterator[str]:
        """Yield the results of all segments, without line ends."""
        for file in sorted(self.path.glob("segment-*")):
            with file.open(encoding="utf-8") as lines:
                yield from (line.rstrip("\n") for line in lines if not line.startswith(_MARK))

    def remove(self) -> None:
        """Remove the folder with its files."""
        for file in self.path.iterdir():
            file.unlink()
        self.path.rmdir()


@dataclass
class _Progress:
    """Counts for the reports of progress. `records` were read, and `done` segments are complete."""

    records: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def add(self, records: int) -> None:
        with self.lock:
            self.records += records


def scan(
    folder: ScanFolder,
    selection: Selection,
    handle: Callable[[Records], Iterable[str]],
    report: Callable[[str], object],
    *,
    pause: float = PAUSE,
) -> int:
    """Read all segments of the table in parallel, and append the lines that `handle` returns for each page.

    Return the number of records, including those of an earlier run. If the process ends before a page's position is in
    the file, the page is handled again. Raises the errors of `handle`, CommandError, aws.Unavailable.
    """
    total, progress = folder.open(), _Progress()

    def run(number: int) -> None:
        try:
            _read_segment(folder.path / f"segment-{number:03}", Segment(number, total), selection, handle, progress)
        except BaseException:
            progress.stop.set()
            raise

    with ThreadPoolExecutor(total) as workers:
        running = {workers.submit(copy_context().run, run, number) for number in range(total)}
        try:
            while running:
                done, running = wait(running, pause, FIRST_EXCEPTION)
                for future in done:
                    future.result()
                progress.done += len(done)
                if running:
                    report(f"{progress.records:,} records, {progress.done} of {total} segments are complete …")
        finally:
            progress.stop.set()
    return progress.records


def _read_segment(
    file: Path,
    segment: Segment,
    selection: Selection,
    handle: Callable[[Records], Iterable[str]],
    progress: _Progress,
) -> None:
    """Scan the rest of a segment of the table. The scan starts at the last position in the file of the segment."""
    position = _repair(file)
    after, is_complete = position.get("after"), position.get("complete", False)
    progress.add(position.get("records", 0))
    count = position.get("records", 0)
    with open(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as lines:
        while not is_complete and not progress.stop.is_set():
            page, after = queries.scan_page(segment, after, selection.values, **selection.expressions)
            lines.writelines(f"{line}\n" for line in handle(page))
            count, is_complete = count + len(page), after is None
            reached = {"after": after, "records": count, "complete": is_complete}
            lines.write(f"{_MARK}{json.dumps(reached)}\n")
            lines.flush()
            progress.add(len(page))


def _repair(file: Path) -> Mapping[str, Any]:
    """Remove the lines after the last position in a segment's file. Return this position, or {} if there is none."""
    if not file.exists():
        return _NONE
    end, reached = 0, _NONE
    with file.open("r+b") as lines:
        position = 0
        for line in lines:
            position += len(line)
            if line.startswith(_MARK.encode()) and line.endswith(b"\n"):
                end, reached = position, json.loads(line[1:])
        lines.truncate(end)
    return reached
