"""Views of one connection in terminals: its requests with their statuses, or its byte counts."""

import re
import time
from typing import Protocol

_REQUEST = re.compile(rb"([A-Z]{3,20}) ([^ ?\r\n]{1,2000})[^ \r\n]* HTTP/1\.[01]\r\n")
_CLIENT = re.compile(rb"\r\nx-forwarded-for: ([0-9A-Fa-f.:]{2,45})\r\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (101|[2-9]\d\d) ")  # of a final response


class TerminalLines(Protocol):
    """The terminals that show lines about connections."""

    @property
    def show_connections(self) -> bool:
        """Return whether a terminal shows connections."""

    def show_connection(self, line: str) -> None:
        """Write a line to each of these terminals."""


class HttpView:
    """Shows each request of a connection when it is answered. Requests follow each other, without pipelining."""

    def __init__(self, terminals: TerminalLines) -> None:
        self._terminals = terminals
        self._request = ""  # the line of the request that is not answered yet
        self._start = 0.0

    def on_request(self, data: bytes) -> None:
        """Remember the request that the bytes begin."""
        if self._terminals.show_connections and (request := _parse_request(data)):
            self._request, self._start = request, time.monotonic()

    def on_response(self, data: bytes) -> None:
        """Show the request with its status and duration."""
        if self._request and (status := _STATUS.match(data)):
            self._show(f"{status[1].decode()}  {(time.monotonic() - self._start) * 1000:.0f} ms")

    def on_close(self) -> None:
        """Show a request that got no response."""
        if self._request:
            self._show("no answer")

    def _show(self, outcome: str) -> None:
        self._terminals.show_connection(f"{self._request}  {outcome}")
        self._request = ""


class StreamView:
    """Shows the byte counts of a TLS or TCP connection when it has ended."""

    def __init__(self, terminals: TerminalLines, address: str) -> None:
        self._terminals, self._address = terminals, address
        self._start = time.monotonic()
        self._bytes_in = self._bytes_out = 0
        self._is_over = False

    def on_request(self, data: bytes) -> None:
        self._bytes_in += len(data)

    def on_response(self, data: bytes) -> None:
        self._bytes_out += len(data)

    def on_close(self) -> None:
        """Show the connection. Can be called twice."""
        if not self._is_over:
            self._is_over = True
            seconds = time.monotonic() - self._start
            counts = f"{self._bytes_in} bytes in, {self._bytes_out} bytes out"
            self._terminals.show_connection(f"{self._address}  {counts}  {seconds:.0f} s")


def _printable(text: str) -> str:
    """Return a text with each control character replaced by "?"."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _parse_request(data: bytes) -> str | None:
    """Return the visitor's address, the method and the path of a request, or None.

    Envoy sends a request after the last response, so that it begins at the start of a read.
    """
    line = _REQUEST.match(data)
    if line is None:
        return None
    client = _CLIENT.search(data)
    address = client[1].decode() if client else "?"
    return f"{address}  {line[1].decode()} {_printable(line[2].decode(errors='replace'))}"
