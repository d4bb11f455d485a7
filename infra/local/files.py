"""Files that only their owner can read; after a kill or a power cut each is the old one or the new one, whole."""

import os
from collections.abc import Collection
from pathlib import Path


def make_folder(folder: Path, own: Collection[str]) -> None:
    """Make a folder that only its owner can read.

    A folder that exists becomes one, unless it holds anything but `own`: then only what is put there is private.
    Raises OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077 and {file.name for file in folder.iterdir()} <= {*own}:
        folder.chmod(0o700)


def write(file: Path, text: str) -> None:
    """Put a file in the place of what is there, a link included, which is not followed. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)  # what a kill left
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as whole:
            whole.write(text)
            whole.flush()
            os.fsync(whole.fileno())
        new.replace(file)
    finally:  # also where a signal ends the process
        new.unlink(missing_ok=True)
