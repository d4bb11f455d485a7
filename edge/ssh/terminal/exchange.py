"""Shows a visitor's connection in the terminals of the SSH client.

The terminals show each HTTP request with its status. For other protocols, they show the number of bytes.
"""

import re
import time
from dataclasses import dataclass
from typing import Protocol

from chalicelib import clock
from edge.ssh.terminal.client_events import AnsweredRequest, Event, StreamEnded

_REQUEST = re.compile(rb"([A-Z]{3,20}) ([^ ?\r\n]{1,2000})[^ \r\n]* HTTP/1\.[01]\r\n")
_CLIENT = re.compile(rb"\r\nx-forwarded-for: ([0-9A-Fa-f.:]{2,45})\r\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (101|[2-9]\d\d) ")  # final responses: statuses 101, and 200 or above


class ConnectionEvents(Protocol):
    """The interface of an SSH connection's terminals for events of visitors' connections."""

    @property
    def show_connections(self) -> bool:
        """Return whether any terminal shows visitors' connections."""

    def show_connection(self, event: Event) -> None:
        """Show an event in each terminal that shows visitors' connections."""


@dataclass(frozen=True)
class _Unanswered:
    """A request that has no response yet. `start` is in seconds of time.monotonic()."""

    client: str
    method: str
    path: str
    at: str
    start: float


class HttpView:
    """Shows each request of an HTTP connection when its response begins.

    Envoy does not pipeline requests, so at most one request is unanswered.
    """

    def __init__(self, terminals: ConnectionEvents) -> None:
        self._terminals = terminals
        self._pending: _Unanswered | None = None

    def on_request(self, data: bytes) -> None:
        """Store the request at the start of the bytes, if there is one."""
        if self._terminals.show_connections and (pending := _parse_request(data)):
            self._pending = pending

    def on_response(self, data: bytes) -> None:
        """Show the unanswered request with its response's status and duration."""
        if self._pending and (status := _STATUS.match(data)):
            self._show(self._pending, int(status[1]))

    def on_close(self) -> None:
        """Show a request that got no response."""
        if self._pending:
            self._show(self._pending, None)

    def _show(self, pending: _Unanswered, status: int | None) -> None:
        self._pending = None
        milliseconds = round((time.monotonic() - pending.start) * 1000)
        request = AnsweredRequest(pending.at, pending.client, pending.method, pending.path, status, milliseconds)
        self._terminals.show_connection(request)


class StreamView:
    """Shows the byte counts of a TLS or TCP connection when it has ended."""

    def __init__(self, terminals: ConnectionEvents, address: str) -> None:
        self._terminals, self._address = terminals, address
        self._start = time.monotonic()
        self._bytes_in = self._bytes_out = 0
        self._is_over = False

    def on_request(self, data: bytes) -> None:
        self._bytes_in += len(data)

    def on_response(self, data: bytes) -> None:
        self._bytes_out += len(data)

    def on_close(self) -> None:
        """Show the connection's byte counts and duration. Can be called twice."""
        if not self._is_over:
            self._is_over = True
            seconds = time.monotonic() - self._start
            counts = f"{self._bytes_in} bytes in, {self._bytes_out} bytes out"
            self._terminals.show_connection(StreamEnded(f"{self._address}  {counts}  {seconds:.0f} s"))


def _printable(text: str) -> str:
    """Return a text with each control character replaced by "?"."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _parse_request(data: bytes) -> _Unanswered | None:
    """Return the request at the start of the bytes, or None.

    Envoy sends a request only after the previous response, so a request can only be at the start of received data.
    """
    line = _REQUEST.match(data)
    if line is None:
        return None
    client = _CLIENT.search(data)
    address = client[1].decode() if client else "?"
    path = _printable(line[2].decode(errors="replace"))
    return _Unanswered(address, line[1].decode(), path, clock.rfc3339(clock.now()), time.monotonic())
