"""An event loop that calls a function before it handles events."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class _Selector(selectors.DefaultSelector):
    """A selector that calls the function `check` before it returns events."""

    def __init__(self) -> None:
        super().__init__()
        self.check: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        if self.check:
            self.check()
        return events


class CheckingLoop(asyncio.SelectorEventLoop):
    """An event loop that calls a function before it handles events.

    If the process was stopped for a while, the function runs before the events that arrived meanwhile are handled.
    """

    def __init__(self) -> None:
        self._checked = _Selector()
        super().__init__(self._checked)

    def check_before_events(self, check: Callable[[], None] | None) -> None:
        self._checked.check = check


def check_before_events(check: Callable[[], None] | None) -> None:
    """Make the running loop call a function before it handles events.

    Does nothing if the loop is not a CheckingLoop.
    """
    loop: Any = asyncio.get_running_loop()
    if isinstance(loop, CheckingLoop):
        loop.check_before_events(check)
