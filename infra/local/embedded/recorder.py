"""Records the emulator's DynamoDB: each change of an item is written to the journal before it is made in memory.

If a change cannot be written, for example on a full disk, it is undone completely.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ministack.services import dynamodb

from infra.local.embedded.journal import Item, Journal, Line

Table = dict[str, Any]


class Recorder:
    """Replaces the emulator's functions that store items, to write each change to the journal first."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._lock = threading.RLock()  # a thread of the emulator also changes items: it removes expired items
        self._undo: list[Callable[[], object]] | None = None  # functions that undo the writes of the present change
        self._set, self._remove, self._replaced = (
            dynamodb._set_item,
            dynamodb._remove_item,
            dynamodb._items_replaced,
        )
        dynamodb._set_item, dynamodb._remove_item, dynamodb._items_replaced = self._store, self._delete, self._replace

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make all writes in the `with` block one change.

        If the change cannot be written to the journal, undo it and raise OSError.
        """
        with self._lock:
            if self._undo is not None:
                yield
                return
            self._undo = []
            streams = {key: len(records) for key, records in dynamodb._stream_records.all_items()}
            try:
                yield
                if self._undo:
                    self.journal.commit()
            except BaseException:
                self._revert(self._undo, streams)
                raise
            finally:
                self._undo = None

    @contextmanager
    def pause(self) -> Iterator[Journal]:
        """Delay all writes until the end of the `with` block. Yield the journal, so that the caller can replace it."""
        with self._lock:
            yield self.journal

    def _store(self, table: Table, hash_key: str, range_key: str, item: Item) -> Item | None:
        with self.change():
            self.journal.write(Line(table["TableArn"], hash_key, range_key, item))
            before: Item | None = self._set(table, hash_key, range_key, item)
            self._remember(table, hash_key, range_key, before)
            return before

    def _delete(self, table: Table, hash_key: str, range_key: str) -> Item | None:
        if range_key not in table["items"].get(hash_key, {}):
            return None
        with self.change():
            self.journal.write(Line(table["TableArn"], hash_key, range_key, None))
            before: Item | None = self._remove(table, hash_key, range_key)
            self._remember(table, hash_key, range_key, before)
            return before

    def _replace(self, table: Table) -> None:
        """Drop the recorded writes when the emulator replaces all items of a table.

        The emulator replaces them after a failed PartiQL transaction, to undo it, and when it restores a backup. After
        a restored backup, the store writes a snapshot.
        """
        self._replaced(table)
        if self._undo:
            self._undo.clear()
            self.journal.drop()

    def _remember(self, table: Table, hash_key: str, range_key: str, before: Item | None) -> None:
        assert self._undo is not None  # noqa: S101
        if before is None:
            self._undo.append(lambda: self._remove(table, hash_key, range_key))
        else:
            self._undo.append(lambda: self._set(table, hash_key, range_key, before))

    def _revert(self, undo: list[Callable[[], object]], streams: dict[tuple[str, str, str], int]) -> None:
        for step in reversed(undo):
            step()
        for key, records in dynamodb._stream_records.all_items():
            del records[streams.get(key, 0) :]
        self.journal.drop()
