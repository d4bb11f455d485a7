"""Schedules the DNS checks that prove domains: many at a time, but few for each account.

All edge hosts share the work. A host claims a check by a conditional write to the reservation. The claim of a host that
stops expires automatically.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence

from chalicelib.model.names import proof_checks, proofs
from chalicelib.model.names.proof_checks import DueCheck
from chalicelib.model.names.proofs import CheckResult, Proof
from edge.process import log
from edge.process.tasks import PeriodicTask
from edge.store.records import Unavailable
from edge.store.threads import Threads

_POLL = 2.0  # seconds between reads of due checks
# Seconds after which another host can claim a check again. A check ends earlier: it makes at most two DNS queries of
# three seconds, and some writes.
_CLAIM_LEASE = 60
_MAX_CHECKS, _MAX_CHECKS_OF_ACCOUNT = 64, 8  # the most concurrent checks: of all accounts, and of one account
# The most due reservations in one read. No account has so many reservations, so a read includes several accounts.
_MAX_READ = 512


Check = Callable[[str, Proof], Awaitable[CheckResult]]


class ProofChecks:
    """Runs the DNS checks that one edge host claims."""

    def __init__(self, check: Check, *, now: Callable[[], float] = time.time) -> None:
        self._check, self._now = check, now
        self._running: dict[asyncio.Task[None], DueCheck] = {}
        self._threads = Threads(4, "looks")  # separate threads: slow checks must not delay other calls of the store

    async def serve(self) -> None:
        """Run due checks, until cancelled."""
        try:
            await PeriodicTask("proof_checks", self.start, _POLL, failures=Unavailable).run()
        finally:
            for task in self._running:
                task.cancel()
            self._threads.shutdown()

    @property
    def count(self) -> int:
        """Return the number of running checks."""
        return len(self._running)

    async def start(self) -> None:
        """Start due checks within the limits. Raises Unavailable."""
        if self.count < _MAX_CHECKS:
            due = await self._threads.call(proof_checks.find_due, int(self._now()), _MAX_READ)
            random.shuffle(due)  # in random order, so that hosts try to claim different checks
            for check in self._choose(due):
                task = asyncio.create_task(self._run(check))
                self._running[task] = check
                task.add_done_callback(self._on_ended)

    def _choose(self, due: Sequence[DueCheck]) -> Iterator[DueCheck]:
        running_of_account = Counter(check.account for check in self._running.values())
        for check in due:
            if running_of_account.total() < _MAX_CHECKS and running_of_account[check.account] < _MAX_CHECKS_OF_ACCOUNT:
                running_of_account[check.account] += 1
                yield check

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        due = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()):  # the check is due again when its claim expires
            log.event("look_failed", id=due.id, error=type(error).__name__)

    async def _run(self, unclaimed: DueCheck) -> None:
        due = await self._threads.call(proof_checks.claim, unclaimed, until=int(self._now()) + _CLAIM_LEASE)
        if due is None:
            return
        result = await self._check(due.domain, due.proof)
        rival = None
        if result.kind == "present" and not due.proof.holds:
            rival = await self._threads.call(proof_checks.find_proved, due.domain)
        if rival:
            await self._contest(due, rival)
        else:
            await self._threads.call(proof_checks.record, due, proofs.apply_check(due.proof, result, int(self._now())))

    async def _contest(self, due: DueCheck, rival: DueCheck) -> None:
        result = await self._check(rival.domain, rival.proof)
        step, lost = proofs.apply_contest(due.proof, rival.proof, result, int(self._now()))
        await self._threads.call(proof_checks.record, due, step, (rival, lost) if lost else None)
