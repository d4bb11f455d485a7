"""An event loop that never waits: its clock jumps to the next timer. Blocking reads end at random times of this clock.

All is done in one thread, so that the same random numbers lead to the same order of all steps.
"""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DELAYS = (0, 0, 0.001, 0.002, 0.004)  # seconds until a blocking call is done, and until its result is known


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, chance: Random) -> None:
        self._selector_clock = _Clock()
        super().__init__(self._selector_clock)
        self.chance = chance

    def time(self) -> float:
        return self._selector_clock.now

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        return asyncio.wrap_future(DelayedCalls().submit(func, *args), loop=self)

    def _write_to_self(self) -> None:
        """Do not wake the selector: it never waits."""


class _Clock(selectors.SelectSelector):
    """A selector of an event loop without sockets. It advances the clock by the time for which it would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "no task can continue"
        self.now += timeout
        return []


class ImmediateCalls:
    """Replaces a pool of threads. A call is done at once."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        future = Future[T]()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class DelayedCalls(ImmediateCalls):
    """Replaces a pool of threads. A call is done at a random time of a VirtualLoop, and its result comes later."""

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        future, loop = Future[T](), asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        delays = loop.chance.choice(_DELAYS), loop.chance.choice(_DELAYS)

        def call() -> None:
            done = ImmediateCalls().submit(function, *arguments)
            loop.call_later(delays[1], _copy, done, future)

        loop.call_later(delays[0], call)
        return future


def _copy(done: "Future[T]", future: "Future[T]") -> None:
    if error := done.exception():
        future.set_exception(error)
    else:
        future.set_result(done.result())
