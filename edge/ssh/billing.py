"""The writing of what accounts have used: to a file twenty times a second, to the store each minute.

A gateway that is killed loses a twentieth of a second: the next one in its folder writes the file of the last one.
Where thousands of accounts are busy, it is written less often: it never takes more than a twentieth of a processor.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from edge.process import files, log
from edge.ssh import ledger
from edge.ssh.ledger import Ledger, Sum
from edge.store.records import Store, Unavailable

_LOOK, _WRITE = 0.05, 60.0  # seconds
_REST = 20  # times as long as a look took, until the next one


class Billing:
    """The usage of one gateway; `collect` adds to a ledger what was carried since it was last called, in this hour."""

    def __init__(self, store: Store, gateway: str, file: Path, collect: Callable[[Ledger, str], None]) -> None:
        self._store, self._gateway, self._file, self._collect = store, gateway, file, collect
        self._ledger = Ledger()
        self._kept = ""
        self._has_failed = False

    async def write_for_ever(self) -> None:
        """Write what a gateway before has left, and then all that is used; also at the end."""
        await self._recover()
        due, took = time.monotonic() + _WRITE, 0.0
        try:
            while True:
                await asyncio.sleep(max(_LOOK, _REST * took))
                began = time.monotonic()
                self._keep()
                took = time.monotonic() - began
                if time.monotonic() > due:
                    due = time.monotonic() + _WRITE
                    await self._write()
        finally:
            self._keep()
            await self._write()

    def _keep(self) -> None:
        """Add what was carried, and write to the file what the store has not got."""
        self._collect(self._ledger, _hour())
        text = self._ledger.text(self._gateway)
        if text == self._kept:
            return
        try:
            files.replace(self._file, text.encode())
        except OSError as error:  # as of a full disk; the store is written all the same
            if not self._has_failed:
                log.event("usage_not_kept", error=type(error).__name__)
            self._has_failed = True
        else:
            self._kept, self._has_failed = text, False

    async def _write(self) -> None:
        sums = self._ledger.unwritten()
        with suppress(Unavailable):  # the next time
            await asyncio.to_thread(self._put, self._gateway, sums)
            self._ledger.wrote(sums, _hour())
            self._keep()

    async def _recover(self) -> None:
        """Write the sums of the gateway that was here before, until the store takes them."""
        try:
            gateway, sums = ledger.left(self._file.read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return
        while sums:
            try:
                await asyncio.to_thread(self._put, gateway, sums)
                sums = []
            except Unavailable:
                log.event("store_away")
                await asyncio.sleep(1)

    def _put(self, gateway: str, sums: Sequence[Sum]) -> None:
        for it in sums:
            self._store.write_usage(it.account, it.hour, gateway, it.usage)


def _hour() -> str:
    return time.strftime("%Y-%m-%dT%H", time.gmtime())
