"""The visitor of a request, as Envoy tells it, and what becomes of those who take too much or send too slowly. Pure."""

import re
from collections.abc import Mapping
from functools import lru_cache

from edge.ssh.networks import source

_TOLD = b"\r\nx-forwarded-for: "  # whatever a client claims, Envoy writes its own
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n")
_CHUNKED = b"\r\ntransfer-encoding: chunked\r\n"
_EXPECTING = re.compile(rb"\r\nexpect: 100-continue\r\n", re.IGNORECASE)
_LAST_CHUNK = re.compile(rb"(?:\A|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n\Z")


def address_of(head: bytes) -> str:
    """Return the address of the visitor; "" where the bytes tell none, as those of HTTP/2."""
    begin = head.find(_TOLD) + len(_TOLD)
    return head[begin : head.find(b"\r\n", begin)].decode("latin-1") if begin >= len(_TOLD) else ""


@lru_cache(4096)
def visitor_of(address: str) -> str:
    """Return whose an address is: its own, of IPv6 its /64."""
    return source(address)


def gives_way(counts: Mapping[str, int], newcomer: str) -> str | None:
    """Return the visitor that has most connections, one of which goes for a newcomer's; None for the newcomer itself.

    The newcomer goes, too, where it would have as many then as that visitor.
    """
    most = max(counts, key=lambda visitor: counts[visitor])
    return most if counts[most] > counts.get(newcomer, 0) + 1 else None


class Body:
    """The body of a request of HTTP/1 as it comes, until it is complete.

    `is_expecting` is true while its client waits to be asked for it (100).
    """

    def __init__(self) -> None:
        self._left = 0
        self._is_chunked = self._is_answered = self.is_expecting = False
        self._came = 0
        self._slow = 0.0  # seconds

    @property
    def is_owed(self) -> bool:
        return self._is_chunked or self._left > 0

    def begins(self, data: bytes) -> None:
        """Hear the head of a request, with what came with it."""
        head, _, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        self._left = int(length[1]) if length else 0
        self._is_chunked = _CHUNKED in head + b"\r\n"
        self._is_answered = False
        self._slow = 0.0
        self.is_expecting = bool(_EXPECTING.search(head + b"\r\n"))
        self.comes(body)

    def comes(self, data: bytes) -> None:
        """Count more of it."""
        self._came += len(data)
        self.is_expecting = self.is_expecting and not data
        self._left -= len(data)
        if self._is_chunked and _LAST_CHUNK.search(data[-4096:]):
            self._is_chunked = False

    def answered(self, data: bytes) -> None:
        """Note that the response has begun, after which no body is too slow. A response of 1xx asks for the body."""
        self._is_answered = self._is_answered or not data.startswith(b"HTTP/1.1 1")

    def slow_for(self, seconds: float, rate: int) -> float:
        """Return for how many seconds less than `rate` bytes a second have come, `seconds` after the last call."""
        is_slow = self.is_owed and not self._is_answered and self._came < rate * seconds
        self._slow = self._slow + seconds if is_slow else 0.0
        self._came = 0
        return self._slow

    def unread(self) -> None:
        """Begin to measure anew: the upstream has read nothing, so that the visitor could not send."""
        self._slow, self._came = 0.0, 0
