"""Decides when to connect again after a lost connection, and to which gateway. Does no I/O."""

import random
from collections.abc import Callable

_FIRST, _LONGEST = 1.0, 15.0  # seconds of the first and the longest wait between two attempts to connect
_STABLE = 1.0  # seconds: if a tunnel was open for this time and is lost, the next attempt begins at once
_MAX_NOTICE = 300.0  # seconds of the longest wait that a gateway can request
_JITTER = 0.25
_TEMPORARY = {"unavailable"}  # reasons of a refusal after which `te` tries again, even if the tunnel was never open


class Reconnect:
    """The waits between the connections of one tunnel command.

    The first attempt after a lost connection begins at once. Further attempts begin after 1, 2, 4 … 15 seconds. `draw`
    returns a random number from 0 to 1, which varies the waits.
    """

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        self._failures = 0
        self._notice: float | None = None
        self._gateway = 0
        self._opened: float | None = None
        self.has_been_open = False

    def on_open(self, now: float) -> None:
        """Record that the tunnel is open, at a monotonic time."""
        self._opened, self.has_been_open = now, True

    def on_tunnel_end(self) -> None:
        """Make the next wait longer after the gateway has ended the tunnel: another client may use the same name."""
        self._opened = None

    def on_notice(self, retry_after: float) -> None:
        """Record that the gateway asks the client to wait for some seconds."""
        self._notice = min(max(0.0, retry_after), _MAX_NOTICE)

    def on_end(self, now: float) -> float:
        """Handle a connection that ended or failed. Return the seconds to wait before the next one."""
        if self._opened is not None:
            self._failures = 0 if now - self._opened >= _STABLE else min(self._failures, 1)
        self._opened = None
        wait = 0.0 if not self._failures else min(_LONGEST, _FIRST * 2 ** (self._failures - 1))
        wait *= 1 + _JITTER * (2 * self._draw() - 1)
        self._failures += 1
        self._gateway += 1
        notice, self._notice = self._notice, None
        return wait if notice is None else notice

    def choose(self, count: int) -> int:
        """Return the index of the next gateway in a list of `count`."""
        return self._gateway % count

    def stay(self) -> None:
        """Use the same gateway for the next connection, because the previous one was closed only for a renewal."""
        self._gateway -= 1

    def is_final(self, code: str, *, is_final: bool) -> bool:
        """Return whether a refusal ends the run.

        Before the tunnel is first open, every refusal ends the run, unless the gateway is only temporarily unavailable.
        """
        return is_final if self.has_been_open else code not in _TEMPORARY
