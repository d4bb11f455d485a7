"""Held connections: accepted from Envoy and not answered yet. A draining gateway joins them to another gateway."""

import asyncio
from collections.abc import Callable
from typing import cast

from edge.link.proxy_protocol import Header


class Side(asyncio.Protocol):
    """One of two joined connections. A Side sends the bytes that it receives to the other Side.

    If its peer sends EOF, the peer of the other Side receives EOF. Before `join`, reading is paused, and data that has
    already arrived is buffered.
    """

    def __init__(self) -> None:
        self._other: Side | None = None
        self._unsent, self._has_ended = b"", False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._other and self._other.transport:
            self._other.transport.write(data)
        else:
            self._unsent += data

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._other:
            self._other.write_end()
        return True  # True makes asyncio keep the other direction open

    def pause_writing(self) -> None:
        if self._other and self._other.transport:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other and self._other.transport:
            self._other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._other:
            self._other.close()

    def join(self, other: "Side") -> None:
        """Join another connection: begin to pass bytes in both directions."""
        self._follow(other)
        other._follow(self)

    def write_end(self) -> None:
        """Send EOF to the peer. Close the connection if the peer has already sent EOF."""
        if self.transport:
            self.transport.write_eof()
            if self._has_ended:
                self.transport.close()

    def close(self) -> None:
        """Close the connection after sending buffered data."""
        if self.transport:
            self.transport.close()

    def _follow(self, other: "Side") -> None:
        self._other = other
        if self.transport is None:
            other.close()
            return
        if other.transport and self._unsent:
            other.transport.write(self._unsent)
        self._unsent = b""
        if self._has_ended:
            other.write_end()
        self.transport.resume_reading()


class HeldConnection(Side):
    """A held connection.

    `visitor` is its PROXY protocol header, or None. `on_end` is called when the connection closes.
    """

    def __init__(self, visitor: Header | None, on_end: "Callable[[HeldConnection], None]") -> None:
        super().__init__()
        self.visitor, self._on_end = visitor, on_end

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_end(self)
