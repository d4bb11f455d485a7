"""Counters of requests in this process: token buckets with this process's share of each limit.

A process that uses at least a sixteenth of a limit reports its count, so that all such processes know the sum. If the
sum exceeds the limit, each process admits only its share. Other processes do not report, so most requests need no call
to the store. Reported counts are sums over windows of SECONDS.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from chalicelib.model.limits import shared_counts
from chalicelib.model.limits.rates import Rate
from chalicelib.model.limits.shared_counts import SECONDS
from chalicelib.storage import snapshot
from chalicelib.storage.client.aws_errors import AwsError

PART = 16  # a count of at least 1/16 of the limit is reported to the other processes
_MAX_COUNTERS = 10_000
_NO_WINDOW = (0, 0)

Add = Callable[[str, int, int], Mapping[int, int]]


class Use(NamedTuple):
    """A limit that a request counts toward. The request takes the amount `cost` of the limit `rate`.

    `scope` names the counter of the limit. If `is_shared`, the counts of all processes are added up.
    """

    scope: str
    rate: Rate
    cost: int = 1
    is_shared: bool = True


class Standing(NamedTuple):
    """The remaining amount of a limit. In `reset` seconds the whole limit is available; in `wait` seconds the request
    is admitted.
    """

    remaining: int
    reset: int
    wait: int


class Counter:
    """A token bucket with this process's share of a limit. Also counts the requests of recent time windows."""

    __slots__ = ("at", "before", "count", "is_due", "last", "level", "share", "window")

    def __init__(self, rate: Rate, now: float) -> None:
        self.level, self.at, self.share = float(rate.burst), now, 1.0
        self.window, self.count, self.is_due = int(now // SECONDS), 0, False
        # `last` is the latest complete time window, `before` the last window that was reported. Each is the number of
        # the window and its count of requests.
        self.last = self.before = _NO_WINDOW

    def refill(self, rate: Rate, now: float) -> None:
        """Add the amount of the limit that became available since the last request."""
        gained = (now - self.at) * rate.per_second * self.share if now > self.at else 0.0
        level, size = self.level + gained, self._size(rate)
        self.level, self.at = (level if level < size else size), now

    def note(self, use: Use, now: float) -> None:
        """Count a request, admitted or not, in the current time window."""
        window = int(now // SECONDS)
        if window != self.window:
            is_next, self.last = window == self.window + 1, (self.window, self.count)
            self.window, self.count = window, 0
            is_busy = self.last[1] > 1 and self.last[1] * PART >= use.rate.per_second * SECONDS
            self.is_due = use.is_shared and is_next and is_busy
            self.share = self.share if self.is_due else min(1.0, self.share * 2)
        self.count += use.cost

    def estimate(self, use: Use) -> Standing:
        """Estimate how much of the limit remains for all processes together, from this process's share."""
        rate, lacking = use.rate.per_second * self.share, self._cost(use) - self.level
        remaining = min(use.rate.burst, int(self.level / self.share))
        wait = max(1, math.ceil(lacking / rate)) if lacking > 0 else 0
        return Standing(remaining, max(1, math.ceil((use.rate.burst - remaining) / use.rate.per_second)), wait)

    def has_room(self, use: Use) -> bool:
        """Return whether enough of the limit remains for a request."""
        return self.level >= self._cost(use)

    def take(self, use: Use) -> None:
        """Subtract the cost of an admitted request."""
        self.level -= self._cost(use)

    def correct(self, use: Use, add: Add) -> None:
        """Report the last time window's count, and compute this process's share.

        The share is computed from the window before the last one, because all processes have reported their counts of
        that window by now. Raises aws.Unavailable.
        """
        window, count = self.last
        counts = add(use.scope, window, count)
        reported, own_count = self.before
        if reported == window - 1 and reported in counts:
            total = counts[reported]
            self.share = own_count / total if total > max(own_count, use.rate.per_second * SECONDS) else 1.0
        self.before = self.last

    def _size(self, rate: Rate) -> float:
        size = rate.burst * self.share
        return size if size > 1 else 1.0

    def _cost(self, use: Use) -> float:
        return use.cost if use.cost <= 1 else min(use.cost, self._size(use.rate))


class Counters:
    """The counters of one process. `add` reports a count to all processes."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._lock = threading.Lock()
        # The counters by `is_shared`, then by scope; the most recently used counter is last. Counters of client
        # addresses are not shared, so a large number of addresses does not evict a shared counter.
        self._counters: dict[bool, dict[str, Counter]] = {True: {}, False: {}}

    def admit(self, uses: Sequence[Use], now: float) -> tuple[bool, list[Standing]]:
        """Return whether a request exceeds none of its limits, and the limits' remaining amounts.

        A rejected request takes nothing from the limits. This call also reports counts of the last time window, if the
        counters are due to report them. If the request is admitted, the call reports only in the second half of the
        current window.
        """
        with self._lock:
            pairs = [(self._find(use, now), use) for use in uses]
            is_admitted = all(counter.has_room(use) for counter, use in pairs)
            if is_admitted:
                for counter, use in pairs:
                    counter.take(use)
            standings = [counter.estimate(use) for counter, use in pairs]
            is_late = now % SECONDS >= SECONDS / 2
            due = [pair for pair in pairs if pair[0].is_due and (is_late or not is_admitted)]
            for counter, _ in due:
                counter.is_due = False
        for counter, use in due:
            with suppress(AwsError):  # if the report fails, this process's share stays unchanged
                counter.correct(use, self._add)
        return is_admitted, standings

    def look(self, use: Use, now: float) -> Standing:
        """Return the remaining amount of a limit, without taking any of it."""
        without_cost = use._replace(cost=0)
        with self._lock:
            return self._find(without_cost, now).estimate(without_cost)

    def forget(self) -> None:
        """Remove all counters, so that each limit is fully available again."""
        with self._lock:
            self._counters = {True: {}, False: {}}

    def _find(self, use: Use, now: float) -> Counter:
        """Return the counter of a limit, after adding the request to the counter."""
        counters = self._counters[use.is_shared]
        counter = counters.pop(use.scope) if use.scope in counters else Counter(use.rate, now)
        counters[use.scope] = counter
        if len(counters) > _MAX_COUNTERS:
            del counters[next(iter(counters))]
        counter.refill(use.rate, now)
        counter.note(use, now)
        return counter


OF_PROCESS = Counters(shared_counts.add)
snapshot.on_restore(OF_PROCESS.forget)
