"""Blocking reads of the store in bounded threads, which give up when the store does not answer."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from edge.store.records import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_AWAY = 0.8  # seconds without any answer after which the store counts as away


class StoreReads:
    """Reads for visitors who wait, and reads of changes, each with their own threads.

    Neither delays the other. A read that is given up still occupies its thread.
    """

    def __init__(self, count: int = 32) -> None:
        self._for_visitors = ThreadPoolExecutor(count, "cold")
        self._of_changes = ThreadPoolExecutor(count, "changes")
        self._answered_at = time.monotonic()
        self.is_away = False

    async def for_visitor(self, read: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of a read for which a visitor waits. Raises Unavailable if no read gets an answer."""
        future = self._start(self._for_visitors, lambda: read(*arguments, **named))
        began = time.monotonic()
        while not future.done():
            await asyncio.wait([future], timeout=_AWAY)
            if not future.done() and max(began, self._answered_at) + _AWAY <= time.monotonic():
                self.is_away = True
                raise Unavailable("no answer")
        return future.result()

    async def of_change(self, read: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of a read that may take as long as it needs. Raises Unavailable."""
        return await self._start(self._of_changes, lambda: read(*arguments, **named))

    def _start(self, threads: ThreadPoolExecutor, read: Callable[[], R]) -> "asyncio.Future[R]":
        future = asyncio.get_running_loop().run_in_executor(threads, read)
        future.add_done_callback(self._on_done)
        return future

    def _on_done(self, future: "asyncio.Future[R]") -> None:
        """Record that the store answers. Any error but Unavailable is an answer, too."""
        if not future.cancelled() and not isinstance(future.exception(), Unavailable):
            self._answered_at, self.is_away = time.monotonic(), False
