"""Runs coroutines together, repeats them periodically, or retries them."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Failures = type[Exception] | tuple[type[Exception], ...]

# the shortest and longest pause in seconds before failed work is retried. The pause doubles with each failure
_MIN_RETRY, _MAX_RETRY = 0.2, 2.0
_JITTER = 0.1  # the share of a pause by which it varies at random, so that hosts do not act at the same time

_running: set["PeriodicTask"] = set()


class PeriodicTask:
    """Work that is repeated after `interval` seconds, and sooner after a failure.

    If `work` returns a number, that is the number of seconds until its next run. After an error in `failures`, `work`
    is retried. Any other error ends the task.
    """

    def __init__(
        self, name: str, work: Callable[[], Awaitable[float | None]], interval: float, *, failures: Failures = ()
    ) -> None:
        self.name, self.interval, self._work, self._failures = name, interval, work, failures
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._next_run = time.monotonic()

    @property
    def lag(self) -> float:
        """Return by how many seconds the next successful run is overdue, or 0."""
        return max(0.0, time.monotonic() - self._next_run)

    def wake(self) -> None:
        """Start the next run at once."""
        self._woken.set()

    def wake_within(self, seconds: float) -> None:
        """Start the next run after `seconds`, unless it is due earlier. Does nothing during a run."""
        loop = asyncio.get_running_loop()
        if self._timer and self._timer.when() > (at := loop.time() + seconds):
            self._timer.cancel()
            self._timer = loop.call_at(at, self._woken.set)

    async def run(self) -> None:
        """Do the work and repeat it, until cancelled."""
        self._next_run, failed = time.monotonic(), 0
        _running.add(self)
        try:
            while True:
                self._woken.clear()
                try:
                    pause = (await self._work() or self.interval) * random.uniform(1 - _JITTER, 1 + _JITTER)
                except self._failures:
                    failed += 1
                    pause = compute_pause(failed)
                else:
                    failed, self._next_run = 0, time.monotonic() + pause
                await self._wait(pause)
        finally:
            _running.discard(self)

    async def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            self._timer.cancel()


def lags() -> Mapping[str, float]:
    """Return by how many seconds each running periodic task of this process is late, by name."""
    return {task.name: task.lag for task in _running}


def compute_pause(failed: int) -> float:
    """Return the seconds until the next retry, after `failed` failures in a row."""
    doublings = min(failed - 1, 10)  # limited, because more doublings do not make the pause longer, and could overflow
    return min(_MAX_RETRY, _MIN_RETRY * 2.0**doublings) * random.uniform(0.5, 1)


async def retry(work: Callable[[], Awaitable[T]], failures: Failures) -> T:
    """Repeat work until it succeeds, after pauses that grow. Return its result."""
    failed = 0
    while True:
        try:
            return await work()
        except failures:
            failed += 1
            await asyncio.sleep(compute_pause(failed))


async def run_all(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until one fails or this call is cancelled. Unlike gather, wait until each has cleaned up.

    Each coroutine is cancelled only once, since cancelling it a second time would interrupt its cleanup.
    `Task.cancelling` does not show whether a coroutine was cancelled here, because it also counts timeouts that the
    coroutine handles.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in (task for task in tasks if task in done):
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieves the error, because asyncio logs errors that no code retrieves
