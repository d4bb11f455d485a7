"""Files that are there whole or not at all, locks, and paths that are short enough for a socket."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def replace(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file beside its place and move it there, whatever was there. Raises OSError."""
    temporary = file.with_name(f".{file.name}")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        os.fchmod(opened.fileno(), mode)
        opened.write(content)
    os.replace(temporary, file)


def lock(file: Path) -> bool:
    """Lock a file until this process ends; False where another process has it locked. Raises OSError."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)  # closed with the process, and not inherited
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return False
    return True


@contextlib.contextmanager
def shorten_socket_path(path: Path) -> Iterator[Path]:
    """Yield another path of a socket that has few bytes: the system takes no more than 107."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        yield Path(f"/proc/self/fd/{folder}") / path.name
    finally:
        os.close(folder)
