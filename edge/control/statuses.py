"""The edge statuses that this host writes when they change, independent of serving.

A status is written once Envoy has answered, or after a time limit. Changes in quick succession are written together.
One account's writes do not delay those of others.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import ParamSpec, TypeVar

from chalicelib import clock
from chalicelib.model.edges.edge_status import EdgeStatus
from edge.control import status
from edge.control.status import NextStatus
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.process import log
from edge.serving.standing import PlannedStatus
from edge.store.records import Store, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 0.2  # seconds between checks of changed edges
_ANSWER_TIMEOUT = 3.0  # seconds to wait for Envoy's answers
_WRITE_PAUSE = 2.0  # seconds between two writes for one edge
_MAX_CHECKS = 200  # edges checked before other tasks of this process run
_MAX_WRITES, _MAX_WRITES_OF_ACCOUNT = 16, 4  # concurrent writes
_RENEWAL_PERIOD, _LEASE = 20.0, 60  # seconds
_WITHDRAW_TIMEOUT = 5.0  # seconds to wait for the store at shutdown
_GRACE = 60 * 60  # seconds until the statuses of a lost host are removed


class Statuses:
    """Writes the statuses of one edge host.

    `planned` returns the planned status of an edge, or None if it is not served here.
    """

    def __init__(
        self, store: Store, host: str, planned: Callable[[str], PlannedStatus | None], discovery: Discovery
    ) -> None:
        self._store, self._host, self._plan_status, self._discovery = store, host, planned, discovery
        self._written: dict[str, tuple[str, EdgeStatus]] = {}  # account and status by edge
        self._due: dict[str, float] = {}  # edges to check, with the time of the first change
        self._not_before: dict[str, float] = {}  # the next permitted write of an edge
        self._dependents: defaultdict[Name, set[str]] = defaultdict(set)  # edges by resource
        self._dependencies: dict[str, frozenset[Name]] = {}
        self._pending: dict[
            str, tuple[str, EdgeStatus | None]
        ] = {}  # the next write of an edge: its account and status
        self._writing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        # Separate threads, so that slow writes delay nothing else; one more for the removal of other hosts.
        self._threads = ThreadPoolExecutor(_MAX_WRITES + 1, "statuses")
        self._announcer = ThreadPoolExecutor(1, "announcing")  # one thread keeps the order: the withdrawal comes last
        self._is_announced = False

    def schedule(self, edges: Iterable[str]) -> None:
        """Schedule a check of edges that changed or were removed."""
        now = time.monotonic()
        self._due |= {edge: now for edge in edges if edge not in self._due}

    def on_answers(self, names: Iterable[Name]) -> None:
        """Check the edges that depend on resources with new answers of Envoy."""
        self.schedule({edge for name in names for edge in self._dependents.get(name, ())})

    async def serve(self) -> None:
        """Write changed statuses, until cancelled."""
        renewing = asyncio.create_task(self._renew_lease())
        try:
            await self._read_previous()
            while True:
                if self._discovery.has_envoy:
                    self._check_due()
                await asyncio.sleep(_POLL)
        finally:
            for task in (renewing, *(task for _, task in self._writing.values())):
                task.cancel()
            await self._withdraw()
            self._threads.shutdown(wait=False)
            self._announcer.shutdown(wait=False)

    async def _renew_lease(self) -> None:
        """Renew the lease of this host while its Envoy is connected."""
        while True:
            with suppress(Unavailable):
                if self._discovery.has_envoy:
                    self._is_announced = True
                    await self._announce(_LEASE)
                    await self._call(self._store.remove_lapsed_hosts, grace=_GRACE)
            await asyncio.sleep(_RENEWAL_PERIOD if self._discovery.has_envoy else _POLL)

    async def _withdraw(self) -> None:
        """End the lease of this host, so that readers ignore its statuses. They stay stored for its next start."""
        if self._is_announced:
            with suppress(Unavailable, TimeoutError):
                await asyncio.wait_for(self._announce(0), _WITHDRAW_TIMEOUT)

    async def _announce(self, lease: int) -> None:
        announce = partial(self._store.announce_host, self._host, lease=lease)
        await asyncio.get_running_loop().run_in_executor(self._announcer, announce)

    async def _read_previous(self) -> None:
        """Read the statuses that this host wrote earlier, and check whether they still apply."""
        while True:
            with suppress(Unavailable):
                found = await self._call(self._store.list_statuses, self._host)
                self._written = {edge: (account, it) for (account, edge), it in found.items()}
                return self.schedule(self._written)
            await asyncio.sleep(_WRITE_PAUSE)

    def _check_due(self) -> None:
        """Check changed edges. An error in one affects no others."""
        for edge in list(islice(self._due, _MAX_CHECKS)):
            try:
                self._check(edge, self._due.pop(edge))
            except Exception as error:
                log.event("status_failed", edge=edge, error=type(error).__name__)
        self._start_writes()

    def _check(self, edge: str, since: float) -> None:
        """Prepare the write of an edge's status, or wait for Envoy's answers."""
        planned, (account, before) = self._plan_status(edge), self._written.get(edge, ("", None))
        found = self._compute(edge, planned, before)
        if (
            found
            and not found.is_settled
            and time.monotonic() < max(since, self._discovery.connected_at) + _ANSWER_TIMEOUT
        ):
            self._due[edge] = since
        else:
            self._pending[edge] = planned.edge.account if planned else account, found.status if found else None

    def _start_writes(self) -> None:
        """Start pending writes within the limits."""
        now, of_account = time.monotonic(), Counter(account for account, _ in self._writing.values())
        for edge, (account, wanted) in list(self._pending.items()):
            if of_account.total() >= _MAX_WRITES:
                return
            is_next = edge not in self._writing and self._not_before.get(edge, 0) <= now
            if is_next and of_account[account] < _MAX_WRITES_OF_ACCOUNT:
                del self._pending[edge]
                if wanted != self._written.get(edge, ("", None))[1]:
                    of_account[account] += 1
                    task = asyncio.create_task(self._write(account, edge, wanted))
                    self._writing[edge] = account, task
                    task.add_done_callback(partial(self._on_written, edge))

    def _compute(self, edge: str, planned: PlannedStatus | None, before: EdgeStatus | None) -> NextStatus | None:
        """Return the next status of an edge, and record the resources that it depends on."""
        new = status.dependencies(planned) if planned else frozenset()
        for name in self._dependencies.pop(edge, frozenset()) - new:
            self._dependents[name].discard(edge)
            if not self._dependents[name]:
                del self._dependents[name]
        for name in new:
            self._dependents[name].add(edge)
        if not planned:
            return None
        self._dependencies[edge] = new
        return status.compute(planned, self._discovery.catalog.current_answer, before, clock.now())

    async def _write(self, account: str, edge: str, wanted: EdgeStatus | None) -> None:
        self._not_before[edge] = time.monotonic() + _WRITE_PAUSE
        if wanted:
            await self._call(self._store.write_status, account, edge, self._host, wanted)
            self._written[edge] = account, wanted
        else:
            await self._call(self._store.remove_status, account, edge, self._host)
            del self._written[edge], self._not_before[edge]

    def _on_written(self, edge: str, task: asyncio.Task[None]) -> None:
        del self._writing[edge]
        if task.cancelled():
            return
        if error := task.exception():
            log.event("status_unwritten", edge=edge, error=type(error).__name__)
            self.schedule([edge])
        self._start_writes()

    async def _call(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: ask(*arguments, **named))
