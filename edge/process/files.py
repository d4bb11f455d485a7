"""Atomic writes, locks, and short paths for sockets."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# From Python 3.13 on, asyncio's Unix servers remove the path of their socket when they close. That must not happen: a
# path from `shorten_socket_path` is invalid by then.
KEEP_SOCKET: Mapping[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


def replace(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically, by writing a temporary file and renaming it. Raises OSError."""
    temporary = file.with_name(f".{file.name}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        os.fchmod(opened.fileno(), mode)
        opened.write(content)
    os.replace(temporary, file)


def lock(file: Path) -> bool:
    """Lock a file until this process ends. Return False if another process has the lock. Raises OSError."""
    # The descriptor stays open until this process ends: closing it would end the lock. Children do not inherit it.
    opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return False
    return True


@contextlib.contextmanager
def shorten_socket_path(path: Path) -> Iterator[Path]:
    """Yield a short path for a socket, because the kernel accepts paths of at most 107 bytes."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        yield Path(f"/proc/self/fd/{folder}") / path.name
    finally:
        os.close(folder)
