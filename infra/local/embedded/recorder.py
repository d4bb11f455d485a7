"""Every item that the emulator's DynamoDB stores or removes goes into the journal first, and then into memory.

So a change that cannot be written down, as on a full disk, does not happen: what it has done by then is undone.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ministack.services import dynamodb

from infra.local.embedded.journal import Item, Journal, Line

Table = dict[str, Any]


class Recorder:
    """Replaces the functions by which the emulator stores items, and writes each change to the journal first."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._lock = threading.RLock()  # the emulator has a thread of its own that removes what has expired
        self._undo: list[Callable[[], object]] | None = None  # of the change that is being made
        self._set, self._remove, self._replaced = (
            dynamodb._set_item,
            dynamodb._remove_item,
            dynamodb._items_replaced,
        )
        dynamodb._set_item, dynamodb._remove_item, dynamodb._items_replaced = self._store, self._delete, self._replace

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make one change of all that is stored in this block. Undoes it and raises OSError if it cannot be written."""
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
                self._take_back(self._undo, streams)
                raise
            finally:
                self._undo = None

    @contextmanager
    def paused(self) -> Iterator[Journal]:
        """Let nothing be stored in this block; yield the journal until now, which the caller may replace."""
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
        """Note that a table has other items now: those of before a PartiQL transaction that failed, or of a backup.

        The first leaves nothing to write down; after the second there is a snapshot.
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

    def _take_back(self, undo: list[Callable[[], object]], streams: dict[tuple[str, str, str], int]) -> None:
        for step in reversed(undo):
            step()
        for key, records in dynamodb._stream_records.all_items():
            del records[streams.get(key, 0) :]
        self.journal.drop()
