"""Calls that wait until a request is complete, or its client stops sending it."""

from collections.abc import Callable

from edge.ssh.interfaces import Later, Timer

_PAUSE = 0.5  # seconds without more of the request, after which its client is taken to have stopped
_MOST_SECONDS = 5.0  # that a call waits at most
_MOST_BYTES = 64 << 10  # of a response that wait at most


class Deferral:
    """Parts of a response that came before the end of their request, and what follows them, in order.

    When a response ends before its request, Envoy resets the stream of HTTP/2 (RST_STREAM, NO_ERROR). Some clients,
    such as curl 7.88, then lose a response that they have not read yet.
    """

    def __init__(self, later: Later) -> None:
        self._later = later
        self._calls: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        self._waited, self._bytes = 0.0, 0
        self._has_moved = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._calls)

    def add(self, call: Callable[[], None], size: int = 0) -> None:
        """Make a call later, after those that wait already. `size` is the number of bytes that it sends."""
        self._calls.append(call)
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            self.release()
        elif self._timer is None:
            self._wait()

    def moved(self) -> None:
        """Note that more of the request has come."""
        self._has_moved = True

    def release(self) -> None:
        """Make the calls now."""
        self.cancel()
        self._waited, self._bytes = 0.0, 0
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._has_moved = False
        self._timer = self._later(_PAUSE, self._check)

    def _check(self) -> None:
        self._waited += _PAUSE
        if self._has_moved and self._waited < _MOST_SECONDS:
            self._wait()
        else:
            self.release()
