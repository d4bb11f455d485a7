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
from edge.traffic.standing import Standing

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 0.2  # seconds between two looks at what is to be said
_PATIENCE = 3.0  # seconds after which it is said what Envoy has not answered
_PAUSE = 2.0  # seconds between two writes of one edge
_AT_ONCE = 200  # edges that are looked at before others have their turn in this process
_MOST, _MOST_OF_ACCOUNT = 16, 4  # writes at once
_LIVES, _LEASE = 20.0, 60  # seconds between two words that the host lives, and for which each holds
_GOODBYE = 5.0  # seconds for which a host that ends waits for the store
_GRACE = 60 * 60  # seconds after which nobody waits for another host that was lost


class Statuses:
    """The statuses of one edge host. `standing` returns how an edge stands, None where it is not served here."""

    def __init__(
        self, store: Store, host: str, standing: Callable[[str], Standing | None], discovery: Discovery
    ) -> None:
        self._store, self._host, self._standing, self._discovery = store, host, standing, discovery
        self._said: dict[str, tuple[str, EdgeStatus]] = {}  # with the account, by edge
        self._due: dict[str, float] = {}  # edges to be looked at, with the moment since which they are
        self._not_before: dict[str, float] = {}  # when an edge may be written of again
        self._resting: defaultdict[Name, set[str]] = defaultdict(set)  # edges by the resources that they rest on
        self._rests_on: dict[str, frozenset[Name]] = {}
        self._wanted: dict[str, tuple[str, EdgeStatus | None]] = {}  # what is to be said next
        self._writing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        # Of their own, so that nothing else of control waits for these; one more, for the removal of other hosts.
        self._threads = ThreadPoolExecutor(_MOST + 1, "statuses")
        self._announcing = ThreadPoolExecutor(1, "announcing")  # in order, so that the withdrawal comes last
        self._is_announced = False

    def touch(self, edges: Iterable[str]) -> None:
        """Hear that edges may stand otherwise, or be gone."""
        now = time.monotonic()
        self._due |= {edge: now for edge in edges if edge not in self._due}

    def hear(self, names: Iterable[Name]) -> None:
        """Hear to which resources Envoy has given another answer."""
        self.touch({edge for name in names for edge in self._resting.get(name, ())})

    async def serve(self) -> None:
        """Write the statuses that change, until cancelled."""
        living = asyncio.create_task(self._live())
        try:
            await self._remember()
            while True:
                if self._discovery.has_envoy:
                    self._look()
                await asyncio.sleep(_POLL)
        finally:
            for task in (living, *(task for _, task in self._writing.values())):
                task.cancel()
            await self._withdraw()
            self._threads.shutdown(wait=False)
            self._announcing.shutdown(wait=False)

    async def _live(self) -> None:
        """Say that the host lives while its Envoy is there."""
        while True:
            with suppress(Unavailable):
                if self._discovery.has_envoy:
                    self._is_announced = True
                    await self._announce(_LEASE)
                    await self._call(self._store.remove_lapsed_hosts, grace=_GRACE)
            await asyncio.sleep(_LIVES if self._discovery.has_envoy else _POLL)

    async def _withdraw(self) -> None:
        """End the lease of this host, so that no status waits for it. Its statuses stay for its next start."""
        if self._is_announced:
            with suppress(Unavailable, TimeoutError):
                await asyncio.wait_for(self._announce(0), _GOODBYE)

    async def _announce(self, lease: int) -> None:
        announce = partial(self._store.announce_host, self._host, lease=lease)
        await asyncio.get_running_loop().run_in_executor(self._announcing, announce)

    async def _remember(self) -> None:
        """Read the statuses that this host wrote before it was started: it may serve no more of that."""
        while True:
            with suppress(Unavailable):
                found = await self._call(self._store.list_statuses, self._host)
                self._said = {edge: (account, it) for (account, edge), it in found.items()}
                return self.touch(self._said)
            await asyncio.sleep(_PAUSE)

    def _look(self) -> None:
        """See what is to be said of edges; one of which nothing can be said harms no other."""
        for edge in list(islice(self._due, _AT_ONCE)):
            try:
                self._see(edge, self._due.pop(edge))
            except Exception as error:
                log.event("status_failed", edge=edge, error=type(error).__name__)
        self._start()

    def _see(self, edge: str, since: float) -> None:
        """See what is to be said of an edge, later where Envoy has yet to answer for it."""
        standing, (account, before) = self._standing(edge), self._said.get(edge, ("", None))
        found = self._next(edge, standing, before)
        if found and not found.is_settled and time.monotonic() < max(since, self._discovery.since) + _PATIENCE:
            self._due[edge] = since
        else:
            self._wanted[edge] = standing.edge.account if standing else account, found.status if found else None

    def _start(self) -> None:
        """Begin to write of as many edges as may be."""
        now, of_account = time.monotonic(), Counter(account for account, _ in self._writing.values())
        for edge, (account, wanted) in list(self._wanted.items()):
            if of_account.total() >= _MOST:
                return
            is_next = edge not in self._writing and self._not_before.get(edge, 0) <= now
            if is_next and of_account[account] < _MOST_OF_ACCOUNT:
                del self._wanted[edge]
                if wanted != self._said.get(edge, ("", None))[1]:
                    of_account[account] += 1
                    task = asyncio.create_task(self._write(account, edge, wanted))
                    self._writing[edge] = account, task
                    task.add_done_callback(partial(self._ended, edge))

    def _next(self, edge: str, standing: Standing | None, before: EdgeStatus | None) -> NextStatus | None:
        """Return the status of an edge, and hear from now on of the answers that it rests on."""
        new = status.rests_on(standing) if standing else frozenset()
        for name in self._rests_on.pop(edge, frozenset()) - new:
            self._resting[name].discard(edge)
            if not self._resting[name]:
                del self._resting[name]
        for name in new:
            self._resting[name].add(edge)
        if not standing:
            return None
        self._rests_on[edge] = new
        return status.of(standing, self._discovery.catalog.answered, before, clock.now())

    async def _write(self, account: str, edge: str, wanted: EdgeStatus | None) -> None:
        self._not_before[edge] = time.monotonic() + _PAUSE
        if wanted:
            await self._call(self._store.write_status, account, edge, self._host, wanted)
            self._said[edge] = account, wanted
        else:
            await self._call(self._store.remove_status, account, edge, self._host)
            del self._said[edge], self._not_before[edge]

    def _ended(self, edge: str, task: asyncio.Task[None]) -> None:
        del self._writing[edge]
        if task.cancelled():
            return
        if error := task.exception():
            log.event("status_unwritten", edge=edge, error=type(error).__name__)
            self.touch([edge])
        self._start()

    async def _call(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: ask(*arguments, **named))
