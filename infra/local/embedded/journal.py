"""The changes of the store since its last snapshot, in their order.

A change is a line for each item that it stored or removed, as that item is then, and a line that says that it is whole.
Such lines can be read again in any state that the change went through, and mean the same.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_WHOLE = b";\n"
_ROOM = b" " * len(_WHOLE)  # kept free behind each line: a change that has its lines can always become whole

Item = dict[str, dict[str, object]]


class Line(NamedTuple):
    """One item as it is after a change: DynamoDB's form of it, or None where it was removed."""

    table: str  # its ARN
    hash_key: str
    range_key: str
    item: Item | None


class Journal:
    """A journal to write to. Its file ends with the last change that is whole."""

    def __init__(self, file: Path, end: int = 0) -> None:
        """Go on after the first `end` bytes; what is behind them is dropped."""
        self.file = file
        self.end = end
        self._next = end
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._descriptor, end)

    def write(self, line: Line) -> None:
        """Write a line of the change. Raises OSError: then drop the change."""
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._write(text + _ROOM)
        self._next += len(text)

    def commit(self) -> None:
        """Make the change whole: from now on it outlives this process. Raises OSError: then drop it."""
        self._write(_WHOLE)
        self._next += len(_WHOLE)
        self.end = self._next

    def drop(self) -> None:
        """Forget the change that is not whole."""
        self._next = self.end
        os.ftruncate(self._descriptor, self.end)

    def syncing(self) -> Callable[[], None]:
        """Return a function that syncs all that was written to the disk: in any thread, also after `close`."""
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
    """Yield each complete change and the byte where it ends; after the last one comes an incomplete one, if any."""
    position = 0
    change: list[Line] = []
    with open(file, "rb") as lines:
        for line in lines:
            position += len(line)
            if line == _WHOLE:
                yield change, position
                change = []
            else:
                try:
                    change.append(Line(*json.loads(line)))
                except (TypeError, ValueError):
                    return
