"""Files in which processes report their progress to the supervisor.

If a process does not write its file any more, the process is stuck or stopped.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edge.process import files

ENVOY = "Envoy"  # the name under which control reports the progress of Envoy's start
PERIOD = 2.0  # seconds between two reports of a process that is serving


class Progress:
    """Writes and reads the progress of the process `name`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = directory / f"{name}.progress"
        self._seen: tuple[int, str] | None = None

    def report(self, text: str) -> None:
        """Write a line that says what the process is doing. Raises OSError."""
        files.replace(self._file, text.encode())

    async def report_alive(self) -> None:
        """Write that the process is serving. Raises OSError, for example if the disk is full."""
        self.report("serving")

    @contextmanager
    def report_waiting(self, waiting: str, failure: type[Exception]) -> Iterator[None]:
        """Report that a process waits, and why, if this block raises an error after which it is repeated."""
        try:
            yield
        except failure as error:
            with suppress(OSError):  # for example if the disk is full
                self.report(f"{waiting}: {error}")
            raise

    def clear(self) -> None:
        """Forget the report of an earlier process."""
        self._file.unlink(missing_ok=True)

    def read_new(self) -> str:
        """Return the line that the process has reported since the previous call, or ""."""
        try:
            seen = self._file.stat().st_mtime_ns, self._file.read_text()
        except OSError:
            return ""
        is_new, self._seen = seen != self._seen, seen
        return seen[1] if is_new else ""


class Heartbeat:
    """Measures for how long another process has not reported."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._at = progress, time.monotonic()

    def silence(self) -> float:
        """Return the seconds since the latest report."""
        if self._progress.read_new():
            self._at = time.monotonic()
        return time.monotonic() - self._at
