"""The terminal of an `ssh -R`: shows the addresses of tunnels, their requests, and refusals.

It has no shell. Without a pseudo-terminal (`ssh -T`) it shows only addresses and refusals.
"""

from collections.abc import Callable
from typing import Any

import asyncssh

_CONTROL_C, _CONTROL_D = "\x03", "\x04"


class Terminal(asyncssh.SSHServerSession[str]):
    """One SSH session channel of a connection."""

    def __init__(self, on_open: Callable[["Terminal"], None], on_end: Callable[["Terminal"], None]) -> None:
        self._on_open, self._on_end = on_open, on_end
        self._channel: asyncssh.SSHServerChannel[str] | None = None
        self.shows_connections = False

    def connection_made(self, chan: "asyncssh.SSHServerChannel[str]") -> None:
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:
        self.shows_connections = True
        return True

    def shell_requested(self) -> bool:
        return True

    def session_started(self) -> None:
        self._on_open(self)

    def data_received(self, data: str, datatype: Any) -> None:
        if _CONTROL_C in data or _CONTROL_D in data:
            self.exit(0)

    def eof_received(self) -> bool:
        return True  # `ssh … < /dev/null` still needs its tunnel

    def signal_received(self, signal: str) -> None:
        self.exit(0)

    def break_received(self, msec: int) -> bool:
        self.exit(0)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel = None
        self._on_end(self)

    def say(self, *lines: str) -> None:
        """Show lines. Drop them if the client reads too slowly."""
        if self._channel and self._channel.get_write_buffer_size() < 64 * 1024:
            self._channel.write("".join(f"{line}\r\n" for line in lines))

    def exit(self, status: int) -> None:
        """End the session."""
        if self._channel:
            self._channel.exit(status)
