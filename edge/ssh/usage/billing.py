"""Writes the usage of accounts to a file and to the store.

The file is written twenty times a second, the store once a minute. If a gateway is killed, the next gateway with the
same folder writes the usage in the file to the store, so only 50 ms of usage are lost. With thousands of busy accounts
the file is written less often, so that the writes take at most a twentieth of a processor's time.
"""

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from chalicelib.model.tunnels import usage
from edge.process import files, log, tasks
from edge.process.tasks import PeriodicTask
from edge.ssh.usage import ledger
from edge.ssh.usage.ledger import HourlyUsage, Ledger
from edge.store import threads
from edge.store.records import Unavailable

_SAVE_PERIOD = 0.05  # seconds between two writes to the file
_WRITE_PERIOD = 60.0  # seconds between two writes to the store
_PAUSE_FACTOR = 20  # minimum length of the pause after a write to the file, as a multiple of the duration of this write


class Billing:
    """Writes the usage of one gateway to a file and to the store.

    `collect(ledger, hour)` adds the traffic of all tunnels since its previous call to the hour in the ledger.
    """

    def __init__(self, gateway: str, file: Path, collect: Callable[[Ledger, str], None]) -> None:
        self._gateway, self._file, self._collect = gateway, file, collect
        self._ledger = Ledger()
        self._saved_text = ""
        self._has_failed = False
        self._next_write = float("inf")  # the monotonic time of the next write to the store

    async def serve(self) -> None:
        """Write the usage of the previous gateway, then of this gateway, until cancelled."""
        await self._recover()
        self._next_write = time.monotonic() + _WRITE_PERIOD
        try:
            await PeriodicTask("usage", self._save_and_write, _SAVE_PERIOD).run()
        finally:
            self._save()
            await self._write()

    async def _save_and_write(self) -> float:
        """Save the usage to the file. Also write it to the store if a write is due.

        Return the seconds until the next save.
        """
        start = time.monotonic()
        self._save()
        duration = time.monotonic() - start
        if time.monotonic() > self._next_write:
            self._next_write = time.monotonic() + _WRITE_PERIOD
            await self._write()
        return max(_SAVE_PERIOD, _PAUSE_FACTOR * duration)

    def _save(self) -> None:
        """Collect the usage of all tunnels, and write it to the file.

        The file has the sums by account and hour that are not in the store yet.
        """
        self._collect(self._ledger, _hour())
        text = self._ledger.to_text(self._gateway)
        if text == self._saved_text:
            return
        try:
            files.replace(self._file, text.encode())
        except OSError as error:  # continue without the file: the usage is also written to the store
            if not self._has_failed:
                log.event("usage_not_kept", error=type(error).__name__)
            self._has_failed = True
        else:
            self._saved_text, self._has_failed = text, False

    async def _write(self) -> None:
        sums = self._ledger.list_unwritten()
        with suppress(Unavailable):  # after a failure, the next write includes these sums
            await threads.call(self._put, self._gateway, sums)
            self._ledger.mark_written(sums, _hour())
            self._save()

    async def _recover(self) -> None:
        """Store the usage that the previous gateway left in its file.

        Retry until the store answers.
        """
        try:
            gateway, sums = ledger.parse(self._file.read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return
        await tasks.retry(functools.partial(threads.call, self._put, gateway, sums), Unavailable)

    def _put(self, gateway: str, sums: Sequence[HourlyUsage]) -> None:
        for hourly_sum in sums:
            usage.write(hourly_sum.account, hourly_sum.hour, gateway, hourly_sum.usage)


def _hour() -> str:
    return time.strftime("%Y-%m-%dT%H", time.gmtime())
