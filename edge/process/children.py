"""Child processes, which are restarted when they die, after a pause that grows with each failure."""

import asyncio
import ctypes
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

_MIN_PAUSE, _MAX_PAUSE = 0.2, 5.0  # seconds before a restart
_STABLE = 30.0  # seconds: after running for so long, the next pause is the shortest again
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """A program to start. Folder, environment and output (`log`) are this process's by default."""

    name: str
    command: Sequence[str]
    log: Path | None = None
    folder: Path | None = None
    environment: Mapping[str, str] | None = None


class Child:
    """A program that runs until `end` is called."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the program, and restart it whenever it dies. Raises OSError."""
        self._process = await self._spawn()
        self._task = asyncio.create_task(self._watch())

    def restart(self) -> None:
        """End the program, which then starts again."""
        if self.pid and self._process:
            self._process.terminate()

    async def end(self, *, within: float = 10) -> None:
        """Send SIGTERM, and SIGKILL if the program has not ended `within` seconds."""
        if self._task:
            self._task.cancel()
        if self.pid is None or self._process is None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), within)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _watch(self) -> None:
        pause = _MIN_PAUSE
        while self._process:
            start = time.monotonic()
            status = await self._process.wait()
            pause = _MIN_PAUSE if time.monotonic() - start > _STABLE else pause
            print(f"{self.program.name} ended ({_describe(status)}) and restarts in {pause:g} s.", file=sys.stderr)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            try:
                self._process = await self._spawn()
            except OSError as error:
                print(f"{self.program.name} cannot be started ({error.strerror}).", file=sys.stderr)

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self.program.log.open("ab") if self.program.log else nullcontext() as output:
            return await asyncio.create_subprocess_exec(
                *self.program.command,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.program.folder,
                env=self.program.environment,
                preexec_fn=_end_with_parent,
            )


def _end_with_parent() -> None:
    """Make the kernel send SIGTERM when the parent dies for any reason. Ignore Ctrl-C, which the parent handles."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _describe(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"
