"""Runs child processes. If one dies, it is restarted after a pause, which grows with each failure."""

import asyncio
import ctypes
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

_MIN_PAUSE, _MAX_PAUSE = 0.2, 5.0  # the shortest and longest pause in seconds before a restart
_STABLE = 30.0  # if a program has run for so many seconds, its next restart has the shortest pause
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """A program to start as a child process.

    Without `folder`, `environment` or `log` (a file for its output), the child has the folder, environment or output of
    this process. `stop` is the signal that ends the program at once.
    """

    name: str
    command: Sequence[str]
    log: Path | None = None
    folder: Path | None = None
    environment: Mapping[str, str] | None = None
    stop: signal.Signals = signal.SIGTERM


class Child:
    """A running program. Until `end` or `drain` is called, it is restarted whenever it dies."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the program, and restart it whenever it dies. Raises OSError."""
        self._process = await spawn(self.program)
        self._task = asyncio.create_task(self._watch())

    def restart(self) -> None:
        """End the program. The program is then started again."""
        if self.pid and self._process:
            self._process.send_signal(self.program.stop)

    async def end(self, *, within: float = 10) -> None:
        """Send the program its stop signal. If it has not ended after `within` seconds, send SIGKILL."""
        if self._task:
            self._task.cancel()
        if self._process:
            await end(self._process, self.program.stop, within=within)

    async def drain(self) -> None:
        """Send SIGTERM, and wait until the program has ended."""
        if self._task:
            self._task.cancel()
        if self.pid and self._process:
            self._process.terminate()
            await self._process.wait()

    async def _watch(self) -> None:
        pause = _MIN_PAUSE
        while self._process:
            start = time.monotonic()
            status = await self._process.wait()
            pause = _MIN_PAUSE if time.monotonic() - start > _STABLE else pause
            print(f"{self.program.name} ended ({describe(status)}) and restarts in {pause:g} s.", file=sys.stderr)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            try:
                self._process = await spawn(self.program)
            except OSError as error:
                print(f"{self.program.name} cannot be started ({error.strerror}).", file=sys.stderr)


async def spawn(program: Program) -> asyncio.subprocess.Process:
    """Start a program. If this process dies, for any reason, the kernel ends the program. Raises OSError."""
    with program.log.open("ab") if program.log else nullcontext() as output:
        return await asyncio.create_subprocess_exec(
            *program.command,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            cwd=program.folder,
            env=program.environment,
            preexec_fn=partial(_end_with_parent, program.stop),
        )


async def end(process: asyncio.subprocess.Process, stop: signal.Signals, *, within: float = 10) -> None:
    """Send the signal `stop` to a process. If the process has not ended after `within` seconds, send SIGKILL."""
    if process.returncode is not None:
        return
    process.send_signal(stop)
    try:
        await asyncio.wait_for(process.wait(), within)
    except TimeoutError:
        process.kill()
        await process.wait()


def describe(status: int) -> str:
    """Return the exit status of a process in words."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _end_with_parent(stop: signal.Signals) -> None:
    """Make the kernel send this child `stop` when its parent dies.

    `stop` is a signal. The child ignores Ctrl-C, which the parent handles.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
