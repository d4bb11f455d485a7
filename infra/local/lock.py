"""Locks that allow one run per folder, because two runs would overwrite each other's state.

The process of `make run` locks one folder, and the process of its embedded cloud locks the folder of the cloud's state.
Two locks are necessary: if the process of `make run` is killed, the cloud ends a moment later. The system releases each
lock (flock) when its process ends.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

from infra import CommandError
from infra.local import files

OWN = ("cloud", "cloud.env", "env", "run", "edge", "deployed")  # names of the files that a run writes into its folder
_TIMEOUT = 20  # seconds to wait for a run that is ending
_PAUSE = 0.1


class _Run(NamedTuple):
    """The process, parent and URL of a run, as its file `run` stores them."""

    pid: int
    parent: int  # a process id, or 0: the run ends when this process ends
    url: str

    @property
    def is_ending(self) -> bool:
        return self.parent != 0 and not _is_alive(self.parent)


def hold_folder(folder: Path, url: str, parent: int) -> None:
    """Lock the folder for this run until this process ends.

    `url` is stored for the error messages of other runs. `parent` is the id of another process, or 0: this run ends
    when that process ends. If another run has the lock but its parent has ended, wait until that run has ended. Raises
    OSError, and CommandError if another run has the lock.
    """
    files.make_folder(folder, OWN)
    deadline = time.monotonic() + _TIMEOUT
    while lock_folder(folder) is None:
        run = _read_run(folder)
        if not (run and run.is_ending) or time.monotonic() > deadline:
            raise CommandError(_describe_use(folder, run))
        time.sleep(_PAUSE)
    files.write(folder / "run", f"{os.getpid()} {parent} {url}")
    await_cloud(folder / "cloud", deadline - time.monotonic())


def lock_folder(folder: Path) -> int | None:
    """Lock a folder until the returned descriptor is closed. Raises OSError.

    Returns None if another process has locked it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(folder: Path) -> bool:
    """Return whether another process has locked a folder."""
    if not folder.exists():
        return False
    if (descriptor := lock_folder(folder)) is not None:
        os.close(descriptor)
    return descriptor is None


def await_cloud(state: Path, timeout: float = _TIMEOUT) -> None:
    """Wait until a cloud that is shutting down has ended. Raises CommandError after the timeout (seconds)."""
    deadline = time.monotonic() + timeout
    while is_locked(state):
        if time.monotonic() > deadline:
            raise CommandError(
                f"The emulated cloud of an earlier run still has {state} open: end its process (fuser -k {state})."
            )
        time.sleep(_PAUSE)


def _read_run(folder: Path) -> _Run | None:
    try:
        pid, parent, url = (folder / "run").read_text().split()
        return _Run(int(pid), int(parent), url)
    except (OSError, ValueError):
        return None


def _describe_use(folder: Path, run: _Run | None) -> str:
    if run is None:
        return (
            f"{folder} is in use by another process: end that process first, or choose another folder with LOCAL_DIR=…."
        )
    return (
        f"{folder} is in use by process {run.pid}, which serves it at {run.url}: "
        f"end that process first (kill {run.pid}), or choose another folder with LOCAL_DIR=…."
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
