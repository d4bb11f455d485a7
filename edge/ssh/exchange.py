"""The requests of one connection and their answers, as lines of a terminal. It is told what goes by, and keeps none."""

import re
import time
from typing import Protocol

_REQUEST = re.compile(rb"([A-Z]{3,20}) ([^ ?\r\n]{1,2000})[^ \r\n]* HTTP/1\.[01]\r\n")
_CLIENT = re.compile(rb"\r\nx-forwarded-for: ([0-9A-Fa-f.:]{2,45})\r\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (101|[2-9]\d\d) ")  # not those before the final one


class Shown(Protocol):
    """The terminals that show connections."""

    @property
    def show_connections(self) -> bool:
        """Tell whether there is one."""

    def show(self, line: str) -> None:
        """Write a line in each."""


class Exchange:
    """One connection; its requests come one after the other, each when the last one was answered."""

    def __init__(self, terminals: Shown) -> None:
        self._terminals = terminals
        self._request = ""  # that is not answered yet
        self._began = 0.0

    def asked(self, data: bytes) -> None:
        """See what goes to the upstream."""
        if self._terminals.show_connections and (request := _request_in(data)):
            self._request, self._began = request, time.monotonic()

    def answered(self, data: bytes) -> None:
        """See what comes from it."""
        if self._request and (status := _STATUS.match(data)):
            self._end(f"{status[1].decode()}  {(time.monotonic() - self._began) * 1000:.0f} ms")

    def closed(self) -> None:
        """See the end of the connection."""
        if self._request:
            self._end("no answer")

    def _end(self, how: str) -> None:
        self._terminals.show(f"{self._request}  {how}")
        self._request = ""


class Passage:
    """One connection of TLS or TCP, from an address: shown when it has ended."""

    def __init__(self, terminals: Shown, address: str) -> None:
        self._terminals, self._address = terminals, address
        self._began = time.monotonic()
        self._bytes_in = self._bytes_out = 0
        self._is_over = False

    def asked(self, data: bytes) -> None:
        """Count what goes to the upstream."""
        self._bytes_in += len(data)

    def answered(self, data: bytes) -> None:
        """Count what comes from it."""
        self._bytes_out += len(data)

    def closed(self) -> None:
        """See the end of the connection, maybe twice."""
        if not self._is_over:
            self._is_over = True
            seconds = time.monotonic() - self._began
            counts = f"{self._bytes_in} bytes in, {self._bytes_out} bytes out"
            self._terminals.show(f"{self._address}  {counts}  {seconds:.0f} s")


def _printable(text: str) -> str:
    """Return the text without what could move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _request_in(data: bytes) -> str | None:
    """Return the client's address and the request that these bytes begin, without its query.

    Envoy sends a request on a connection when the last one was answered, so that one begins where a read begins.
    """
    found = _REQUEST.match(data)
    if found is None:
        return None
    client = _CLIENT.search(data)
    address = client[1].decode() if client else "?"
    return f"{address}  {found[1].decode()} {_printable(found[2].decode(errors='replace'))}"
