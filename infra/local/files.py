"""Files that only their owner can read, replaced atomically.

After a kill or a power cut, each file is complete: the old one or the new one.
"""

import os
from collections.abc import Collection
from pathlib import Path


def make_folder(folder: Path, names: Collection[str]) -> None:
    """Make a folder that only its owner can read. Raises OSError.

    `names` are the names of this program's files. An existing folder becomes private too, unless it contains other
    files: then its mode stays unchanged, and only the files that `write` writes are private.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077 and {file.name for file in folder.iterdir()} <= {*names}:
        folder.chmod(0o700)


def write(file: Path, text: str) -> None:
    """Write or replace a file. A link is replaced, not followed. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)  # a file from a process that was killed before `replace`
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    finally:  # remove the new file after Ctrl-C too
        new.unlink(missing_ok=True)
