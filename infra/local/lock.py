"""One run for one folder: two would each keep what is in its own memory over what the other has kept.

A run holds its folder, and its cloud the folder within where the state is: when a run is killed, its cloud ends a
moment later. Both use flock, so nothing is left of a lock when its process is gone.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

from infra import CommandError
from infra.local import files

OWN = ("cloud", "cloud.env", "env", "run", "edge", "deployed")  # what we keep in such a folder
_PATIENCE = 20  # seconds for what is ending by itself
_PAUSE = 0.1


class _Run(NamedTuple):
    """The record of a run in the lock file."""

    pid: int
    parent: int  # the process that it ends with, or 0
    url: str

    @property
    def is_ending(self) -> bool:
        return self.parent != 0 and not _is_alive(self.parent)


def hold(folder: Path, url: str, parent: int) -> None:
    """Hold the folder until this process ends, for a run that serves at the URL and ends with its parent (or 0).

    Waits for what is ending by itself. Raises CommandError when another run has the folder, OSError.
    """
    files.make_folder(folder, OWN)
    until = time.monotonic() + _PATIENCE
    while take(folder) is None:
        run = _written(folder)
        if not (run and run.is_ending) or time.monotonic() > until:
            raise CommandError(_in_use(folder, run))
        time.sleep(_PAUSE)
    files.write(folder / "run", f"{os.getpid()} {parent} {url}")
    await_cloud(folder / "cloud", until - time.monotonic())


def take(folder: Path) -> int | None:
    """Lock a folder until the descriptor is closed; None when another process has locked it. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_taken(folder: Path) -> bool:
    """Tell whether another process has locked a folder."""
    if not folder.exists():
        return False
    if (descriptor := take(folder)) is not None:
        os.close(descriptor)
    return descriptor is None


def await_cloud(state: Path, patience: float = _PATIENCE) -> None:
    """Wait for the end of a cloud that is ending. Raises CommandError when it goes on for longer than the patience."""
    until = time.monotonic() + patience
    while is_taken(state):
        if time.monotonic() > until:
            raise CommandError(f"The cloud of an earlier run still has {state} open: end it (fuser -k {state}).")
        time.sleep(_PAUSE)


def _written(folder: Path) -> _Run | None:
    try:
        pid, parent, url = (folder / "run").read_text().split()
        return _Run(int(pid), int(parent), url)
    except (OSError, ValueError):
        return None


def _in_use(folder: Path, run: _Run | None) -> str:
    if run is None:
        return f"{folder} is in use by another process: end that first, or choose another place with LOCAL_DIR=…."
    return (
        f"{folder} is in use by process {run.pid}, which serves it at {run.url}: "
        f"end that first (kill {run.pid}), or choose another place with LOCAL_DIR=…."
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
