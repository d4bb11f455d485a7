"""Locks between processes of one user, so that a token or certificate is renewed once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tunnel_edge.identity import files


@contextmanager
def hold(name: str) -> Iterator[None]:
    """Hold the lock with this name while the block runs. Other processes of the user wait for it.

    The system releases the lock if the process ends.
    """
    folder = files.private_folder(files.state_folder() / "locks")
    with open(os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        else:  # on Windows, LK_LOCK waits at most ten seconds, and closing the file releases the lock
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        yield
