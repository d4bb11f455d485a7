"""Writes the reports of this host about edges. A report exists while Envoy rejects a part of the edge.

Changes in quick succession are written together. Writes for one account do not delay writes for other accounts.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from edge.process import log
from edge.process.tasks import PeriodicTask, retry
from edge.store.records import Unavailable
from edge.store.threads import Threads

_POLL = 0.2  # seconds between checks of pending writes, while there are any
_WRITE_PAUSE = 2.0  # seconds between two writes for one edge
_MAX_WRITES, _MAX_WRITES_OF_ACCOUNT = 16, 4  # the most concurrent writes: for all accounts, and for one account
_RENEWAL_PERIOD, _LEASE = 20.0, 60  # seconds between renewals of the host's lease, and the lease's duration
_WITHDRAW_TIMEOUT = 5.0  # seconds to wait for the store at shutdown
_GRACE = 60 * 60  # seconds after the end of a host's lease until its reports are removed


class Statuses:
    """Writes the reports of one edge host, and renews the lease of the host. This never delays the traffic of visitors.

    `has_envoy` returns whether Envoy is connected. `operator_names` returns the names in the operator's certificate.
    At start, `on_found` receives the account and id of each edge about which an earlier process of this host has
    written a report.
    """

    def __init__(
        self,
        host: str,
        has_envoy: Callable[[], bool],
        operator_names: Callable[[], Iterable[str]],
        on_found: Callable[[Iterable[tuple[str, str]]], None],
    ) -> None:
        self._on_found = on_found
        self._host, self._has_envoy, self._operator_names = host, has_envoy, operator_names
        self._written: dict[str, tuple[str, Report]] = {}  # for each edge: its account, and the stored report
        self._not_before: dict[str, float] = {}  # for each edge: the earliest monotonic time of its next write
        self._pending: dict[str, tuple[str, Report | None]] = {}  # for each edge: its account, and the report to write
        self._writing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        # Separate threads, so that slow writes do not delay other calls of the store. One thread more than the writes
        # need removes hosts with an ended lease.
        self._threads = Threads(_MAX_WRITES + 1, "statuses")
        self._announcer = Threads(1, "announcing")  # one thread, so that the end of the host's lease is written last
        self._is_announced = False
        self._task = PeriodicTask("statuses", self._start_writes, _RENEWAL_PERIOD)

    def schedule(self, account: str, edge: str, report: Report | None) -> None:
        """Write the report about an edge soon, or remove it."""
        self._pending[edge] = account, report
        self._task.wake_within(_POLL)

    async def serve(self) -> None:
        """Write changed reports, and renew the lease of the host, until cancelled."""
        announcing = PeriodicTask("announcement", self._renew_lease, _RENEWAL_PERIOD, failures=Unavailable)
        renewing = asyncio.create_task(announcing.run())
        try:
            await retry(self._read_previous, Unavailable)
            await self._task.run()
        finally:
            for task in (renewing, *(task for _, task in self._writing.values())):
                task.cancel()
            await self._withdraw()
            self._threads.shutdown()
            self._announcer.shutdown()

    async def _renew_lease(self) -> float:
        """Renew the lease of this host while its Envoy is connected. Return the pause until the next renewal."""
        if self._has_envoy():
            self._is_announced = True
            await self._announce(_LEASE)
            await self._threads.call(edge_status.remove_expired_hosts, grace=_GRACE)
        return _RENEWAL_PERIOD if self._has_envoy() else _POLL

    async def _withdraw(self) -> None:
        """End the lease of this host, so that readers ignore the reports, which stay stored for the next start."""
        if self._is_announced:
            with suppress(Unavailable, TimeoutError):
                await asyncio.wait_for(self._announce(0), _WITHDRAW_TIMEOUT)

    async def _announce(self, lease: int) -> None:
        await self._announcer.call(edge_status.announce, self._host, self._operator_names(), lease=lease)

    async def _read_previous(self) -> None:
        """Read the stored reports of this host's previous process. Remove them, unless this process replaces them."""
        reports = await self._threads.call(edge_status.read_statuses, self._host)
        self._written = {edge: (account, report) for (account, edge), report in reports.items()}
        removed: dict[str, tuple[str, Report | None]] = {
            id: (account, None) for id, (account, _) in self._written.items()
        }
        self._pending = {**removed, **self._pending}
        self._on_found({key: report for key, report in reports.items() if kinds.identify(key[1]) in kinds.EDGES})

    async def _start_writes(self) -> float | None:
        """Start pending writes, within the limits on concurrent writes. Return the pause until the next call."""
        now, of_account = time.monotonic(), Counter(account for account, _ in self._writing.values())
        for edge, (account, wanted) in list(self._pending.items()):
            if of_account.total() >= _MAX_WRITES:
                break
            is_next = edge not in self._writing and self._not_before.get(edge, 0) <= now
            if is_next and of_account[account] < _MAX_WRITES_OF_ACCOUNT:
                del self._pending[edge]
                if wanted != self._written.get(edge, ("", None))[1]:
                    of_account[account] += 1
                    task = asyncio.create_task(self._write(account, edge, wanted))
                    self._writing[edge] = account, task
                    task.add_done_callback(partial(self._on_written, account, edge, wanted))
        return _POLL if self._pending else None

    async def _write(self, account: str, edge: str, report: Report | None) -> None:
        self._not_before[edge] = time.monotonic() + _WRITE_PAUSE
        if report:
            await self._threads.call(edge_status.write, account, edge, report)
            self._written[edge] = account, report
        else:
            await self._threads.call(edge_status.remove, account, edge, self._host)
            del self._written[edge], self._not_before[edge]

    def _on_written(self, account: str, edge: str, report: Report | None, task: asyncio.Task[None]) -> None:
        del self._writing[edge]
        if task.cancelled():
            return
        if error := task.exception():
            log.event("status_unwritten", edge=edge, error=type(error).__name__)
            self._pending.setdefault(edge, (account, report))
        self._task.wake()
