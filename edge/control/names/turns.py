"""Limits how many names are searched at the same time. Other names wait without a task."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable


class Turns:
    """A queue of names for which at most `max_tasks` tasks do `work`.

    Waiting names have no task: a task takes 10 KiB.
    """

    def __init__(self, work: Callable[[str], Awaitable[None]], max_tasks: int) -> None:
        self._work, self._max_tasks = work, max_tasks
        self._waiting: deque[str] = deque()
        self._running = 0  # the number of running tasks
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, name: str) -> None:
        """Do the work for a name, as soon as a task is free."""
        self._waiting.append(name)
        if self._running < self._max_tasks:
            self._running += 1
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Forget the waiting names, and cancel the running tasks."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._work(self._waiting.popleft())
        finally:
            self._running -= 1
