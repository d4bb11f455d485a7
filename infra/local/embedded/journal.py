"""A journal of the store's changes since its last snapshot.

A change has a line with the new state of each item that it stored or removed, and a final line that marks it complete.
Replaying is idempotent: a snapshot can contain some of the changes already.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_COMPLETE = b";\n"
# Each line is written with these blanks after it, and the next line overwrites them. They reserve space on the disk, so
# that `commit` does not fail on a full disk.
_ROOM = b" " * len(_COMPLETE)

Item = dict[str, dict[str, object]]


class Line(NamedTuple):
    """An item of a table after a change. `item` is in DynamoDB's JSON, or None if the change removed the item."""

    table: str  # the ARN of the table
    hash_key: str
    range_key: str
    item: Item | None


class Journal:
    """A writable journal. `end` is the position after the last complete change."""

    def __init__(self, file: Path, end: int = 0) -> None:
        """Open a file and truncate it to its first `end` bytes."""
        self.file = file
        self.end = end
        self._next = end
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._descriptor, end)

    def write(self, line: Line) -> None:
        """Append a line, which is part of a change. Raises OSError: the caller must then drop the change."""
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._write(text + _ROOM)
        self._next += len(text)

    def commit(self) -> None:
        """Complete the change, so that it survives this process. Raises OSError: the caller must then drop it."""
        self._write(_COMPLETE)
        self._next += len(_COMPLETE)
        self.end = self._next

    def drop(self) -> None:
        """Remove the incomplete change."""
        self._next = self.end
        os.ftruncate(self._descriptor, self.end)

    def prepare_sync(self) -> Callable[[], None]:
        """Return a function that syncs the file to disk. Any thread can call the function, even after `close`."""
        descriptor = os.dup(self._descriptor)

        def sync() -> None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        return sync

    def close(self) -> None:
        os.close(self._descriptor)

    def remove(self) -> None:
        self.close()
        self.file.unlink()

    def _write(self, text: bytes) -> None:
        if os.pwrite(self._descriptor, text, self._next) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))


def read(file: Path) -> Iterator[tuple[list[Line], int]]:
    """Yield each complete change and the position of its end. An incomplete change at the end is skipped."""
    position = 0
    change: list[Line] = []
    with open(file, "rb") as lines:
        for line in lines:
            position += len(line)
            if line == _COMPLETE:
                yield change, position
                change = []
            else:
                try:
                    change.append(Line(*json.loads(line)))
                except (TypeError, ValueError):
                    return
