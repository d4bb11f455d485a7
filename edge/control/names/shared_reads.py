"""Reads that concurrent requests share, so that many requests for one name cause few reads."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class SharedReads(Generic[K, T]):
    """Reads by key, one at a time for each key. A request never gets the result of a read that began before it."""

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._running: dict[K, asyncio.Task[T]] = {}
        self._waiting: dict[K, asyncio.Task[T]] = {}  # for each key: the read that begins after the running read

    async def get(self, key: K) -> T:
        """Return the result of a read that begins after this call. Raises the errors of the read."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._run(key))
        # If one request is cancelled, the read continues, because other requests may wait for the same read.
        return await asyncio.shield(self._waiting[key])

    async def _run(self, key: K) -> T:
        if running := self._running.get(key):
            await asyncio.wait([running])
        task = self._running[key] = self._waiting.pop(key)
        try:
            return await self._read(key)
        finally:
            if self._running.get(key) is task:
                del self._running[key]
