"""The session channels of an SSH client: the terminal of an `ssh -R`, and the subsystem `events`.

Neither has a shell. Without a pseudo-terminal (`ssh -T`) a terminal shows only addresses and refusals.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import asyncssh

from edge.ssh.terminal.client_events import Event

_CONTROL_C, _CONTROL_D = "\x03", "\x04"
_SUBSYSTEM = "events"
# If a client has at least this number of unread characters, the gateway drops further events for this client.
# The limit for events of requests is lower, so that there is still room for other events.
_MAX_UNREAD, _MAX_UNREAD_REQUESTS = 64 * 1024, 32 * 1024
_PERIOD = 0.1  # seconds for which the subsystem collects events of requests, to send them together
_MAX_REQUESTS = 200  # maximum events of requests in one period: further events are dropped


class Terminal(asyncssh.SSHServerSession[str]):
    """A session channel of an SSH connection: a terminal, or the subsystem `events`."""

    def __init__(self, on_open: Callable[["Terminal"], None], on_end: Callable[["Terminal"], None]) -> None:
        self._on_open, self._on_end = on_open, on_end
        self._channel: asyncssh.SSHServerChannel[str] | None = None
        self.shows_connections = self.is_subsystem = False
        self._requests: list[str] = []
        self.confirmed = asyncio.Event()  # set when the gateway confirms the client's session

    def connection_made(self, chan: "asyncssh.SSHServerChannel[str]") -> None:
        self._channel = chan
        self.confirmed.set()

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:
        self.shows_connections = True
        return True

    def shell_requested(self) -> bool:
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self.is_subsystem = self.shows_connections = subsystem == _SUBSYSTEM
        return self.is_subsystem

    def session_started(self) -> None:
        self._on_open(self)

    def data_received(self, data: str, datatype: Any) -> None:
        if _CONTROL_C in data or _CONTROL_D in data:
            self.exit(0)

    def eof_received(self) -> bool:
        return True  # the session stays open after EOF: the client of `ssh … < /dev/null` still needs its tunnel

    def signal_received(self, signal: str) -> None:
        self.exit(0)

    def break_received(self, msec: int) -> bool:
        self.exit(0)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel = None
        self._on_end(self)

    def show(self, *events: Event) -> None:
        """Show events, or drop them if the client reads too slowly."""
        if self.is_subsystem:
            self._write_requests()
        self._write("".join(map(self._encode, events)), _MAX_UNREAD)

    def show_connection(self, event: Event) -> None:
        """Show an event of a visitor's connection. The subsystem collects events, and sends several at once."""
        if not self.is_subsystem:
            self._write(self._encode(event), _MAX_UNREAD)
            return
        if not self._requests:
            asyncio.get_running_loop().call_later(_PERIOD, self._write_requests)
        if len(self._requests) < _MAX_REQUESTS:
            self._requests.append(self._encode(event))

    def exit(self, status: int) -> None:
        """End the session with an exit status."""
        if self._channel:
            self._channel.exit(status)

    def _write_requests(self) -> None:
        text = "".join(self._requests)
        self._requests.clear()
        self._write(text, _MAX_UNREAD_REQUESTS)

    def _write(self, text: str, most_unread: int) -> None:
        if text and self._channel and self._channel.get_write_buffer_size() < most_unread:
            self._channel.write(text)

    def _encode(self, event: Event) -> str:
        if not self.is_subsystem:
            return f"{event.line}\r\n"
        return f"{json.dumps(event.fields)}\n" if event.fields else ""
