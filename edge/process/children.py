"""Child processes that are watched: one that dies is started again, after a pause that grows while it keeps dying."""

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

_FIRST, _LAST, _STEADY = 0.2, 5.0, 30.0  # seconds
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """A program to start, its folder and environment (else ours); its output goes to ours, or into a file."""

    name: str
    command: Sequence[str]
    log: Path | None = None
    folder: Path | None = None
    environment: Mapping[str, str] | None = None


class Child:
    """One program that runs until `end`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it for the first time, and watch it from then on. Raises OSError."""
        self._process = await self._spawn()
        self._task = asyncio.create_task(self._watch())

    async def end(self, *, within: float = 10) -> None:
        """End it with SIGTERM, and with SIGKILL if that takes more than `within` seconds."""
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
        pause = _FIRST
        while self._process:
            started = time.monotonic()
            status = await self._process.wait()
            pause = _FIRST if time.monotonic() - started > _STEADY else pause
            print(f"{self.program.name} ended ({_said(status)}): it starts again in {pause:g} s.", file=sys.stderr)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST)
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
                preexec_fn=_end_with_the_parent,
            )


def _end_with_the_parent() -> None:
    """Ask the system to end this process when its parent dies, in whatever way; leave Ctrl-C to the parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _said(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"status {status}"
