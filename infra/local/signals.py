"""The signals that end a process: SIGINT, SIGTERM and SIGHUP."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt() -> None:
    """Make the first signal raise KeyboardInterrupt, and ignore later ones.

    Later signals must not interrupt the embedded cloud while it saves its state.
    """
    for number in _list_handled():
        signal.signal(number, _raise_interrupt)


@contextmanager
def defer() -> Iterator[None]:
    """Delay the handling of signals until the end of the `with` block.

    A signal during `Popen` could lose the new process, or make `Popen` wait for its own lock forever.
    """
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _list_handled()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in received:
            signal.raise_signal(late)


def _raise_interrupt(*_: object) -> None:
    for number in _list_handled():
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _list_handled() -> list[signal.Signals]:
    """Return the signals that end this process. A program started by nohup ignores SIGHUP."""
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
