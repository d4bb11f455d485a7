"""Waits until a child process is ready."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from edge.process import files, metrics
from edge.process.children import Child
from edge.process.progress import Progress
from edge.process.settings import SettingError

_TIMEOUT = 120.0  # seconds without progress after which a start has failed. Control's imports can take more than 30
_NOTICE = 5.0  # seconds between two lines that say which process is not ready


@dataclass(frozen=True)
class Readiness:
    """An HTTP path at a Unix socket of a process. The status is 200 while the process is ready."""

    socket: Path
    path: str

    def __str__(self) -> str:
        return str(self.socket)


ReadyAddress: TypeAlias = Path | Readiness  # the socket at which a ready process listens, or a path that answers 200


async def wait_until_ready(
    child: Child, address: ReadyAddress, progress: Progress, *, timeout: float = _TIMEOUT, notice: float = _NOTICE
) -> None:
    """Wait until a child is ready. Print every `notice` seconds for which process this function waits.

    Raises SettingError if the child ends, or reports no progress for too long.
    """
    start = _Start(child, address)
    noticed_at = start.began
    while not await _is_ready(address):
        now = time.monotonic()
        start.update(progress.read_new(), now)
        if error := start.find_error(now, timeout):
            raise SettingError(f"{child.program.name} did not start: {error}")
        if now > noticed_at + notice:
            noticed_at = now
            print(start.describe(now), flush=True)
        await asyncio.sleep(0.05)


class _Start:
    """The start of a child process, with its latest report and the time of that report."""

    def __init__(self, child: Child, address: ReadyAddress) -> None:
        self.began = self._progressed_at = time.monotonic()
        self._child, self._address = child, address
        self._report = ""

    def update(self, report: str, now: float) -> None:
        if report:
            self._progressed_at, self._report = now, report

    def find_error(self, now: float, timeout: float) -> str:
        """Return why the start has failed, and where the log is. Return "" if it has not failed."""
        log = self._child.program.log
        log_hint = f"Its log is {log}." if log else "Its messages are above."
        if self._child.pid is None:
            return f"it ended. {log_hint}"
        if now < self._progressed_at + timeout:
            return ""
        last = f"its last progress, {now - self._progressed_at:.0f} s ago, was: {self._report}"
        silence = last if self._report else "it reported no progress"
        return f"{self._address} did not answer for {now - self.began:.0f} s, and {silence}. {log_hint}"

    def describe(self, now: float) -> str:
        """Return a line that says for which process the edge waits, and how long it has waited."""
        doing = f" ({self._report})" if self._report else ""
        return f"Waiting for {self._child.program.name}{doing}: {now - self.began:.0f} s …"


async def _is_ready(address: ReadyAddress) -> bool:
    try:
        if isinstance(address, Readiness):
            await metrics.read_from(address.socket, address.path)()
            return True
        with files.shorten_socket_path(address) as path:
            _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True
