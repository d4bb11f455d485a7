"""Runs a function in a thread or in a child process, while this process continues.

Python runs only one thread at a time. A child process can use another core while this process imports modules.
"""

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

from tunnel_edge.errors import CommandError

_T = TypeVar("_T")


class NoResult(Exception):
    """The child process has ended without a result."""


def start_in_thread(work: Callable[[], _T]) -> Callable[..., _T]:
    """Call a function in a daemon thread, which ends when the process ends.

    Return a function that waits for the result. It accepts a timeout in seconds.
    """
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # `future.result` raises the error in the thread that waits for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result


def start_in_child(work: Callable[[], _T]) -> Callable[[], _T]:
    """Call a function in a child process. Return a function that waits for the result.

    This process must have only one thread. The returned function raises CommandError or NoResult.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        _run(work, writes)
    os.close(writes)

    def wait() -> _T:
        with open(reads, "rb") as pipe:
            content = pipe.read()
        os.waitpid(child, 0)
        if not content:
            raise NoResult
        result, error = pickle.loads(content)  # noqa: S301 - this program wrote it
        if error:
            raise CommandError(*error)
        value: _T = result
        return value

    return wait


def _run(work: Callable[[], Any], writes: int) -> NoReturn:
    """Write the result of a function for the parent, and end this process. After an error, write nothing."""
    try:
        try:
            content = pickle.dumps((work(), None))
        except CommandError as error:
            content = pickle.dumps((None, (str(error), error.code, error.body)))
        with open(writes, "wb") as pipe:
            pipe.write(content)
    finally:
        os._exit(0)
