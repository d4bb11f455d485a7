"""How a process is ended: by Ctrl-C, by the system, with its terminal; and what none of them breaks off."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt() -> None:
    """Have the first ending raise KeyboardInterrupt: a second one would keep the cloud from saving its state."""
    for ending in _heeded():
        signal.signal(ending, _interrupted)


@contextmanager
def put_off() -> Iterator[None]:
    """An ending that comes in here comes after it.

    A Popen that is broken off forgets the process it has just started, or waits for its own lock for ever.
    """
    came: list[int] = []
    before = {ending: signal.signal(ending, lambda number, _: came.append(number)) for ending in _heeded()}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
        for number in came:
            signal.raise_signal(number)


def _interrupted(*_: object) -> None:
    for ending in _heeded():
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


def _heeded() -> list[signal.Signals]:
    """Those that are not ignored, as nohup wants it."""
    return [ending for ending in _ENDINGS if signal.getsignal(ending) is not signal.SIG_IGN]
