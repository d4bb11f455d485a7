"""Delays an early response until its request is complete, or the client has stopped sending."""

from collections.abc import Callable

from edge.ssh.data.interfaces import CallLater, Timer

_PAUSE = 0.5  # seconds without request data after which the client counts as having stopped
_MAX_WAIT = 5.0  # maximum seconds of delay: then the calls are made even if the client still sends
_MAX_BYTES = 64 << 10  # maximum delayed bytes of a response: above it, all delayed calls are made at once


class Deferral:
    """The delayed calls that send an early response, in order. A response is early if its request is incomplete.

    When a response ends before its request, Envoy resets the HTTP/2 stream (RST_STREAM, NO_ERROR). Some clients, such
    as curl 7.88, then lose the part of the response that they have not read.
    """

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._calls: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        self._waited, self._bytes = 0.0, 0
        self._has_moved = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._calls)

    def add(self, call: Callable[[], None], size: int = 0) -> None:
        """Delay a call that sends `size` bytes of the response."""
        self._calls.append(call)
        self._bytes += size
        if self._bytes > _MAX_BYTES:
            self.release()
        elif self._timer is None:
            self._wait()

    def on_progress(self) -> None:
        """Record that more of the request has arrived."""
        self._has_moved = True

    def release(self) -> None:
        """Make all delayed calls now."""
        self.cancel()
        self._waited, self._bytes = 0.0, 0
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def cancel(self) -> None:
        """Stop the timer that would make the delayed calls."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._has_moved = False
        self._timer = self._call_later(_PAUSE, self._check)

    def _check(self) -> None:
        self._waited += _PAUSE
        if self._has_moved and self._waited < _MAX_WAIT:
            self._wait()
        else:
            self.release()
