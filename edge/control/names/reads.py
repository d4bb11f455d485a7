"""Blocking reads of the store in a limited number of threads. Reads fail early if the store does not answer."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from edge.store.records import Unavailable, Undecodable
from edge.store.threads import translate_errors

P = ParamSpec("P")
R = TypeVar("R")

_AWAY = 0.8  # after so many seconds without any answer, the store counts as unavailable
_CHECK = 0.1  # seconds between two checks whether the store still answers, while a visitor waits


class StoreReads:
    """Reads for visitors who wait, and reads of changed records. Each kind has its own threads.

    So neither kind of read delays the other. A visitor's read fails early if the store does not answer, but the thread
    of the read stays occupied until the call to the store ends.
    """

    def __init__(self, count: int = 32) -> None:
        self._for_visitors = ThreadPoolExecutor(count, "cold")
        self._of_changes = ThreadPoolExecutor(count, "changes")
        self._waiting: dict[asyncio.Future[Any], float] = {}  # the time at which each read for a visitor began
        self._check: asyncio.TimerHandle | None = None
        self._busy = 0.0  # total seconds by which a busy event loop has delayed checks
        self._answered_at = self._now()
        self.is_away = False

    async def for_visitor(self, read: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of a read for which a visitor waits.

        Raises Unavailable if the read fails, or if the store answers no read at all for `_AWAY` seconds.
        """
        future = self._start(self._for_visitors, lambda: read(*arguments, **named))
        self._waiting[future] = self._now()
        if self._check is None:
            self._schedule_check()
        try:
            return await future
        finally:
            del self._waiting[future]

    async def of_change(self, read: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of a read for which no visitor waits. It has no time limit. Raises Unavailable."""
        return await self._start(self._of_changes, lambda: read(*arguments, **named))

    def _now(self) -> float:
        """Return the time of a clock that stops while the event loop is busy."""
        return time.monotonic() - self._busy

    def _schedule_check(self) -> None:
        self._check = asyncio.get_running_loop().call_later(_CHECK, self._give_up, time.monotonic() + _CHECK)

    def _give_up(self, due: float) -> None:
        """Fail the reads that have waited too long while no read got an answer."""
        self._busy += max(0.0, time.monotonic() - due)
        now = self._now()
        for future, began in self._waiting.items():
            if max(began, self._answered_at) + _AWAY <= now and not future.done():
                self.is_away = True
                future.set_exception(Unavailable("no answer"))
        self._check = None
        if any(not future.done() for future in self._waiting):
            self._schedule_check()

    def _start(self, threads: ThreadPoolExecutor, read: Callable[[], R]) -> "asyncio.Future[R]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()

        def wake(done: "Future[R]") -> None:
            with suppress(RuntimeError):  # the event loop ended before the read, so no task waits for the result
                loop.call_soon_threadsafe(self._on_done, future, done)

        threads.submit(translate_errors, read).add_done_callback(wake)
        return future

    def _on_done(self, future: "asyncio.Future[R]", done: "Future[R]") -> None:
        """Record that the store answers. An error other than Unavailable is also an answer."""
        error = done.exception()
        if isinstance(error, Undecodable) or not isinstance(error, Unavailable):
            self._answered_at, self.is_away = self._now(), False
        if future.done():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(done.result())
