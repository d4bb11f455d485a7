"""Calls functions of `chalicelib` in threads, and translates errors of the storage into errors of `edge.store`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from chalicelib.storage.client import aws, call_counts
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord
from edge.process import log
from edge.store.records import Throttled, Unavailable, Undecodable

P = ParamSpec("P")
R = TypeVar("R")


async def call(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function in a thread of the event loop's pool. Raises Unavailable, Throttled or Undecodable."""
    return await asyncio.to_thread(translate_errors, lambda: function(*arguments, **named))


class Threads:
    """A separate pool of threads. Slow calls in other pools do not delay the calls in this pool."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    async def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function in one of the threads of this pool. Raises the same errors as the function `call`."""
        work = self._pool.submit(translate_errors, lambda: function(*arguments, **named))
        return await asyncio.wrap_future(work)

    def shutdown(self) -> None:
        """End the threads after their current calls."""
        self._pool.shutdown(wait=False)


def translate_errors(function: Callable[[], R]) -> R:
    """Call a function. Translate its errors into Unavailable, Throttled, or Undecodable (a malformed record)."""
    try:
        return function()
    except aws.AwsError as error:
        is_throttled = error.code in call_counts.THROTTLE_CODES
        raise (Throttled if is_throttled else Unavailable)(error.code) from None
    except MalformedRecord as malformed:
        log.event(decoding.EVENT, **malformed.facts)
        raise Undecodable(decoding.EVENT) from None
