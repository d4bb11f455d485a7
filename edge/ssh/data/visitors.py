"""Determines a visitor's address, which visitor loses a connection, and how fast a request body arrives.

This file does no I/O.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from edge.networks import get_source

_ADDRESS = b"\r\nx-forwarded-for: "  # Envoy sets this header, and drops a header of this name that a client sends
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n")
_CHUNKED = b"\r\ntransfer-encoding: chunked\r\n"
_EXPECTING = re.compile(rb"\r\nexpect: 100-continue\r\n", re.IGNORECASE)
_LAST_CHUNK = re.compile(rb"(?:\A|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n\Z")


def parse_address(head: bytes) -> str:
    """Return the visitor's address in the head of a request. Return "" if there is none, for example in HTTP/2."""
    start = head.find(_ADDRESS) + len(_ADDRESS)
    return head[start : head.find(b"\r\n", start)].decode("latin-1") if start >= len(_ADDRESS) else ""


@lru_cache(4096)
def get_visitor(address: str) -> str:
    """Return the network that counts as one visitor.

    That is an IPv4 address itself, or the /64 of an IPv6 address.
    """
    return get_source(address)


def choose_eviction(counts: Mapping[str, int], newcomer: str) -> str | None:
    """Return the visitor who loses a connection to the visitor `newcomer`.

    This is the visitor with the most connections. Return None if the newcomer would then have more connections than
    this visitor.
    """
    busiest = max(counts, key=lambda visitor: counts[visitor])
    return busiest if counts[busiest] > counts.get(newcomer, 0) + 1 else None


class Body:
    """The progress of an HTTP/1 request body.

    `is_expecting` is true while the client waits for the status 100 (Continue).
    """

    def __init__(self) -> None:
        self._remaining = 0
        self._is_chunked = self._is_answered = self.is_expecting = False
        self._received = 0  # bytes of the body since the previous check
        self._slow = 0.0  # how long the body has been too slow, in seconds

    @property
    def is_incomplete(self) -> bool:
        return self._is_chunked or self._remaining > 0

    def begin(self, data: bytes) -> None:
        """Start with the head of a request, and with the bytes that follow it."""
        head, _, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        self._remaining = int(length[1]) if length else 0
        self._is_chunked = _CHUNKED in head + b"\r\n"
        self._is_answered = False
        self._slow = 0.0
        self.is_expecting = bool(_EXPECTING.search(head + b"\r\n"))
        self.add(body)

    def add(self, data: bytes) -> None:
        """Count received bytes of the body."""
        self._received += len(data)
        self.is_expecting = self.is_expecting and not data
        self._remaining -= len(data)
        if self._is_chunked and _LAST_CHUNK.search(data[-4096:]):
            self._is_chunked = False

    def on_response(self, data: bytes) -> None:
        """Record that the response has begun: from now on the body is never too slow.

        A response with a status 1xx does not count, because the final response follows it.
        """
        self._is_answered = self._is_answered or not data.startswith(b"HTTP/1.1 1")

    def count_slow_seconds(self, seconds: float, rate: int) -> float:
        """Return for how many seconds the body has been slower than `rate` bytes per second.

        `seconds` is the time since the previous call.
        """
        is_slow = self.is_incomplete and not self._is_answered and self._received < rate * seconds
        self._slow = self._slow + seconds if is_slow else 0.0
        self._received = 0
        return self._slow

    def reset_rate(self) -> None:
        """Start the measurement of the body's rate again.

        While the upstream does not read, the visitor cannot send. The body must not count as slow during this time.
        """
        self._slow, self._received = 0.0, 0
