"""Files in which processes report their progress to the supervisor: the steps of their start, or that they serve.

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
    """Writes and reads the progress report of the process `name`: one line in a file."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = directory / f"{name}.progress"
        self._latest: tuple[int, str] | None = None

    def report(self, text: str) -> None:
        """Write a line that says what the process is doing. Raises OSError."""
        files.replace(self._file, text.encode())

    async def report_alive(self) -> None:
        """Write that the process is serving. Raises OSError, for example if the disk is full."""
        self.report("serving")

    @contextmanager
    def report_waiting(self, waiting: str, failure: type[Exception]) -> Iterator[None]:
        """Report why this process waits if the `with` block raises `failure`.

        The report is `waiting` with the error. The error is raised again, so that the caller can repeat the block.
        """
        try:
            yield
        except failure as error:
            with suppress(OSError):  # for example if the disk is full
                self.report(f"{waiting}: {error}")
            raise

    def clear(self) -> None:
        """Remove the file with the report of an earlier process."""
        self._file.unlink(missing_ok=True)

    def read_new(self) -> str:
        """Return the latest report, or "" if it was read before or there is none."""
        try:
            latest = self._file.stat().st_mtime_ns, self._file.read_text()
        except OSError:
            return ""
        is_new, self._latest = latest != self._latest, latest
        return latest[1] if is_new else ""


class Heartbeat:
    """Measures the seconds since the latest report of another process."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._at = progress, time.monotonic()

    def silence(self) -> float:
        """Return how many seconds ago the observed process last reported."""
        if self._progress.read_new():
            self._at = time.monotonic()
        return time.monotonic() - self._at
