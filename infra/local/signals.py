"""The signals that end a process: Ctrl-C, the system's SIGTERM, the SIGHUP of a closed terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt() -> None:
    """Make the first signal raise KeyboardInterrupt, and ignore later ones: the cloud is saving its state by then."""
    for number in _heeded():
        signal.signal(number, _interrupted)


@contextmanager
def defer() -> Iterator[None]:
    """Handle signals that arrive inside the block after it.

    A Popen that is interrupted forgets the process it has just started, or waits for its own lock for ever.
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _interrupted(*_: object) -> None:
    for number in _heeded():
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _heeded() -> list[signal.Signals]:
    """Return the signals that are not ignored: nohup ignores SIGHUP."""
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
