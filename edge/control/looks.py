"""When the records that prove domains are looked at: whatever is due, many at once, few of one account at a time.

All edge hosts do this work together: a host claims a look by a write of the reservation itself, which one host alone
succeeds with. Of a host that dies meanwhile, the claim ends by itself.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar

from chalicelib.model import proofs
from chalicelib.model.looks import Due
from chalicelib.model.proofs import Found, Proof, Step
from edge.process import log
from edge.store.records import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 2.0  # seconds between two readings of what is due
_CLAIM_LEASE = (
    60  # seconds for which a look is one host's: more than two looks, of three seconds each, and their writes
)
_MAX_CHECKS, _MAX_CHECKS_OF_ACCOUNT = 64, 8  # looks at once
_MAX_READ = (
    512  # reservations that are due, read at once: more than one account has, or its looks could hide the others
)


class ProofStore(Protocol):
    """The reservations. Every method blocks, and raises Unavailable."""

    def due(self, now: int, most: int) -> list[Due]:
        """Return reservations whose look is due, the longest due first."""

    def claim(self, due: Due, *, until: int) -> Due | None:
        """Postpone the next look to `until`; return the reservation as it is then, None if it was changed before."""

    def holder(self, domain: str) -> Due | None:
        """Return the reservation that holds a domain, as it is now."""

    def record(self, due: Due, step: Step, loser: tuple[Due, Step] | None = None) -> bool:
        """Write proofs with their events; take and release the domain as they say, all or nothing.

        Return False, having written nothing, if one of the reservations was changed or another one has the domain.
        """


Check = Callable[[str, Proof], Awaitable[Found]]


class ProofChecks:
    """The looks of one edge host."""

    def __init__(self, store: ProofStore, check: Check, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._check, self._now = store, check, now
        self._running: dict[asyncio.Task[None], Due] = {}
        self._threads = ThreadPoolExecutor(4, "looks")  # of their own: the others of control never wait for these

    async def serve(self) -> None:
        """Look at what is due, until cancelled."""
        try:
            while True:
                with suppress(Unavailable):
                    await self.start()
                await asyncio.sleep(_POLL)
        finally:
            for task in self._running:
                task.cancel()
            self._threads.shutdown(wait=False)

    @property
    def count(self) -> int:
        """Return the number of looks that run just now."""
        return len(self._running)

    async def start(self) -> None:
        """Begin as many of the looks that are due as may run. Raises Unavailable."""
        if self.count < _MAX_CHECKS:
            due = await self._call(self._store.due, int(self._now()), _MAX_READ)
            random.shuffle(due)  # or all hosts would try to claim the same one
            for it in self._choose(due):
                task = asyncio.create_task(self._run(it))
                self._running[task] = it
                task.add_done_callback(self._on_ended)

    def _choose(self, due: Sequence[Due]) -> Iterator[Due]:
        of_account = Counter(it.account for it in self._running.values())
        for it in due:
            if of_account.total() < _MAX_CHECKS and of_account[it.account] < _MAX_CHECKS_OF_ACCOUNT:
                of_account[it.account] += 1
                yield it

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        due = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()):  # it is due again when its claim ends
            log.event("look_failed", id=due.id, error=type(error).__name__)

    async def _run(self, found: Due) -> None:
        due = await self._call(self._store.claim, found, until=int(self._now()) + _CLAIM_LEASE)
        if due is None:
            return
        result = await self._check(due.domain, due.proof)
        holder = None
        if result.kind == "present" and not due.proof.holds:
            holder = await self._call(self._store.holder, due.domain)
        if holder:
            await self._contest(due, holder)
        else:
            await self._call(self._store.record, due, proofs.after(due.proof, result, int(self._now())))

    async def _contest(self, due: Due, holder: Due) -> None:
        theirs = await self._check(holder.domain, holder.proof)
        step, lost = proofs.contest(due.proof, holder.proof, theirs, int(self._now()))
        await self._call(self._store.record, due, step, (holder, lost) if lost else None)

    async def _call(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: ask(*arguments, **named))
