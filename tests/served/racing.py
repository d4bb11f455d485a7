"""Requests that begin at the same moment, in threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TypeVar

from tests.transports import Answer

T = TypeVar("T")


def at_once(acts: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of functions that begin at the same moment."""
    begin = Barrier(len(acts))

    def run(act: Callable[[], T]) -> T:
        begin.wait(timeout=30)
        return act()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def statuses(count: int, act: Callable[[int], Answer]) -> list[int]:
    """Return the sorted statuses of a request that is sent so many times at the same moment."""
    return sorted(answer.status for answer in at_once([partial(act, number) for number in range(count)]))
