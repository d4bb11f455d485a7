"""Files that are there whole or not at all."""

import os
from pathlib import Path


def replace(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file beside its place and move it there, whatever was there. Raises OSError."""
    beside = file.with_name(f".{file.name}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        os.fchmod(opened.fileno(), mode)
        opened.write(content)
    os.replace(beside, file)
