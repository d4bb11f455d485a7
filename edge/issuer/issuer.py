"""Works through the schedule of automatic certificates: claims due entries and makes attempts."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from chalicelib.model.names import renewal_schedule
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.storage.client import aws
from edge.issuer.order_counts import OrderCounts
from edge.issuer.rules import account_turns, outcomes
from edge.issuer.rules.account_turns import AccountTurns
from edge.process import log
from edge.process.tasks import PeriodicTask

P = ParamSpec("P")
R = TypeVar("R")

_MAX_READ = 2500  # the most due entries in one read. An account can have fewer, so a read also reaches other accounts
_MAX_HELD = 100  # the most due entries that are postponed after one read


@dataclass(frozen=True)
class Pace:
    """The times of the issuer, in seconds, and the number of concurrent attempts.

    `poll` is the pause between two reads of the schedule. `claim` is how long a claimed entry belongs to one issuer.
    `retire` is the pause between two searches for certificates to revoke or delete.
    """

    poll: float = 10
    claim: int = 600
    retire: float = 60
    attempts: int = 8


class Issuer:
    """Claims due entries of the renewal schedule, and calls `attempt` for each entry in a thread."""

    def __init__(
        self,
        attempt: Callable[[DueRenewal], None],
        counts: OrderCounts,
        pace: Pace,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._attempt, self._counts, self._pace, self._now = attempt, counts, pace, now
        self._turns, self._running = AccountTurns(), set[asyncio.Task[None]]()
        self._threads = ThreadPoolExecutor(pace.attempts + 1, "issuer")
        self._polling = PeriodicTask("renewals", self.poll, pace.poll, failures=aws.AwsError)
        self._has_more = False  # whether the latest read found more due entries than free threads

    @property
    def count(self) -> int:
        """Return the number of running attempts."""
        return len(self._running)

    async def serve(self) -> None:
        """Make attempts, until cancelled.

        Running attempts end with the process. When the claims of these attempts expire, an issuer continues the orders.
        """
        try:
            await self._polling.run()
        finally:
            for task in self._running:
                task.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def poll(self) -> None:
        """Start as many due attempts as there are free threads. Raises aws.AwsError."""
        room, now = self._pace.attempts - self.count, int(self._now())
        due = await self._call(renewal_schedule.find_due, now, _MAX_READ) if room else []
        if not due:
            return
        times = await self._call(self._counts.list_all, now)
        chosen, postponed = self._choose(due, self._counts.bounds.service.count - len(times), room, now)
        self._has_more = len(chosen) + len(postponed) < len(due)
        for renewal in chosen:
            task = asyncio.create_task(self._call(self._claim, renewal))
            self._running.add(task)
            task.add_done_callback(self._on_ended)
        await self._call(self._hold, postponed[:_MAX_HELD], times, now)

    def _choose(
        self, due: Sequence[DueRenewal], remaining: int, room: int, now: int
    ) -> tuple[list[DueRenewal], list[DueRenewal]]:
        """Return the entries to attempt now, and the entries that wait for the service-wide limit on orders.

        Both are in the order of AccountTurns. `remaining` is the number of orders that the limit still allows. `room`
        is the number of free threads. An entry that waits for the limit does not use up the turn of its account.
        """
        by_key = {(renewal.entry.account, renewal.entry.reservation): renewal for renewal in due}
        counted = {key for key, renewal in by_key.items() if _counts(renewal)} if remaining <= 0 else set()
        candidates = {key: account_turns.candidate(renewal.entry, now) for key, renewal in by_key.items()}
        free = [candidate for key, candidate in candidates.items() if key not in counted]
        limit = room if remaining <= 0 else min(room, remaining)
        chosen = [by_key[candidate.account, candidate.id] for candidate in self._turns.choose(free, limit)]
        postponed = self._turns.sort(candidates[key] for key in counted)
        return chosen, [by_key[candidate.account, candidate.id] for candidate in postponed]

    def _hold(self, postponed: Sequence[DueRenewal], times: Sequence[int], now: int) -> None:
        """Postpone each entry until the service-wide limit admits its order."""
        bound, admissions = self._counts.bounds.service, [*times]
        for due in postponed:
            admissions.append(bound.admits_at(admissions, now))
            failure = outcomes.rate_limited(bound.limit, admissions[-1])
            renewal_schedule.postpone(due, outcomes.hold(due.entry.renewal, failure, now))

    def _claim(self, due: DueRenewal) -> None:
        """Claim an entry and make an attempt, unless another issuer was first."""
        now = int(self._now())
        if claimed := renewal_schedule.claim(due, now, now + self._pace.claim):
            self._attempt(claimed)

    def _on_ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        # After a failure, an issuer attempts the entry again when the claim has expired.
        if not task.cancelled() and (error := task.exception()):
            log.event("attempt_failed", error=type(error).__name__)
        if self._has_more:
            self._polling.wake()

    async def _call(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*arguments, **named))


def _counts(due: DueRenewal) -> bool:
    """Return whether an entry counts towards the service-wide limit on orders.

    The entry counts if its domain has a certificate policy, and its order renews no certificate.
    """
    renewal = due.entry.renewal
    is_first = not renewal.certificate_id or (renewal.started_at > 0 and renewal.renews_at > renewal.due_at)
    return due.item is not None and renewal_schedule.has_policy(due.item) and is_first
