"""The statuses that this edge host writes of edges, where one changes: beside the serving, while the host lives.

A change is said once Envoy has answered what it rests on, or has taken its time; changes that follow at once are said
together. An account's writes wait for its own alone.
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
from chalicelib.model.edge_status import EdgeStatus
from edge.control import status
from edge.control.catalog import Name
from edge.control.discovery import Discovery
from edge.control.status import NextStatus
from edge.process import log
from edge.store.records import Store, Unavailable
from edge.traffic.standing import PlannedStatus

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 0.2  # seconds between two looks at what is to be said
_ANSWER_TIMEOUT = 3.0  # seconds after which it is said what Envoy has not answered
_WRITE_PAUSE = 2.0  # seconds between two writes of one edge
_MAX_CHECKS = 200  # edges that are looked at before others have their turn in this process
_MAX_WRITES, _MAX_WRITES_OF_ACCOUNT = 16, 4  # writes at once
_RENEWAL_PERIOD, _LEASE = 20.0, 60  # seconds between two words that the host lives, and for which each holds
_WITHDRAW_TIMEOUT = 5.0  # seconds for which a host that ends waits for the store
_GRACE = 60 * 60  # seconds after which nobody waits for another host that was lost


class Statuses:
    """The statuses of one edge host. `planned` returns how an edge stands, None where it is not served here."""

    def __init__(
        self, store: Store, host: str, planned: Callable[[str], PlannedStatus | None], discovery: Discovery
    ) -> None:
        self._store, self._host, self._plan_status, self._discovery = store, host, planned, discovery
        self._written: dict[str, tuple[str, EdgeStatus]] = {}  # with the account, by edge
        self._due: dict[str, float] = {}  # edges to be looked at, with the moment since which they are
        self._not_before: dict[str, float] = {}  # when an edge may be written of again
        self._dependents: defaultdict[Name, set[str]] = defaultdict(set)  # edges by the resources that they rest on
        self._dependencies: dict[str, frozenset[Name]] = {}
        self._pending: dict[str, tuple[str, EdgeStatus | None]] = {}  # what is to be said next
        self._writing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        # Of their own, so that nothing else of control waits for these; one more, for the removal of other hosts.
        self._threads = ThreadPoolExecutor(_MAX_WRITES + 1, "statuses")
        self._announcer = ThreadPoolExecutor(1, "announcing")  # in order, so that the withdrawal comes last
        self._is_announced = False

    def schedule(self, edges: Iterable[str]) -> None:
        """Hear that edges may stand otherwise, or be gone."""
        now = time.monotonic()
        self._due |= {edge: now for edge in edges if edge not in self._due}

    def on_answers(self, names: Iterable[Name]) -> None:
        """Hear to which resources Envoy has given another answer."""
        self.schedule({edge for name in names for edge in self._dependents.get(name, ())})

    async def serve(self) -> None:
        """Write the statuses that change, until cancelled."""
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
        """Say that the host lives while its Envoy is there."""
        while True:
            with suppress(Unavailable):
                if self._discovery.has_envoy:
                    self._is_announced = True
                    await self._announce(_LEASE)
                    await self._call(self._store.end_hosts, grace=_GRACE)
            await asyncio.sleep(_RENEWAL_PERIOD if self._discovery.has_envoy else _POLL)

    async def _withdraw(self) -> None:
        """End the lease of this host, so that no status waits for it. Its statuses stay for its next start."""
        if self._is_announced:
            with suppress(Unavailable, TimeoutError):
                await asyncio.wait_for(self._announce(0), _WITHDRAW_TIMEOUT)

    async def _announce(self, lease: int) -> None:
        announce = partial(self._store.live, self._host, lease=lease)
        await asyncio.get_running_loop().run_in_executor(self._announcer, announce)

    async def _read_previous(self) -> None:
        """Read the statuses that this host wrote before it was started: it may serve no more of that."""
        while True:
            with suppress(Unavailable):
                found = await self._call(self._store.statuses_of, self._host)
                self._written = {edge: (account, it) for (account, edge), it in found.items()}
                return self.schedule(self._written)
            await asyncio.sleep(_WRITE_PAUSE)

    def _check_due(self) -> None:
        """See what is to be said of edges; one of which nothing can be said harms no other."""
        for edge in list(islice(self._due, _MAX_CHECKS)):
            try:
                self._check(edge, self._due.pop(edge))
            except Exception as error:
                log.event("status_failed", edge=edge, error=type(error).__name__)
        self._start_writes()

    def _check(self, edge: str, since: float) -> None:
        """See what is to be said of an edge, later where Envoy has yet to answer for it."""
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
        """Begin to write of as many edges as may be."""
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
        """Return the status of an edge, and hear from now on of the answers that it rests on."""
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
            await self._call(self._store.put_status, account, edge, self._host, wanted)
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
