"""TLS at the gateway's end of the link, in which each direction ends by itself, as in TCP.

asyncio's own TLS ends both directions when one does, so that a visitor who has sent all could not be answered.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Protocol, cast

_AT_ONCE = 64 << 10  # bytes
_BUFFER = memoryview(bytearray(_AT_ONCE))  # of all connections: what is in it is taken out at once
_MOST_UNSENT = 64 << 10  # bytes, from which on the protocol is told to pause
_LINGER = 60.0  # seconds in which some of what is left must be taken when a connection is closed


class Owner(Protocol):
    """The owner of an accepted connection."""

    def handshake_over(self, secured: "Secured") -> asyncio.Protocol | None:
        """Return the protocol that goes on when the handshake is over, None where the connection is to end."""

    def failed(self) -> None:
        """Hear that the connection has ended before."""


class Secured(asyncio.BufferedProtocol, asyncio.Transport):
    """A connection of TLS: the protocol of the socket's transport, and the transport of another protocol."""

    def __init__(self, context: ssl.SSLContext, owner: Owner) -> None:
        super().__init__()
        self._owner = owner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._protocol: asyncio.Protocol | None = None
        self._unread = b""  # decrypted already
        self._is_paused = self._is_closing = False
        self._has_peer_ended = self._has_told_end = self._has_ended = False

    # What the socket's transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._raw.set_write_buffer_limits(high=_MOST_UNSENT)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.received(_BUFFER[:nbytes])

    def received(self, data: bytes | memoryview) -> None:
        """Go on with bytes that came in."""
        self._incoming.write(data)
        if self._protocol:
            self._deliver()
        else:
            self._shake_hands()

    def pause_writing(self) -> None:
        if self._protocol:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._protocol:
            self._protocol.connection_lost(exc)
        else:
            self._owner.failed()

    # What the protocol asks for

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_ended or self._is_closing:
            return
        left = memoryview(data)
        while left:
            left = left[self.tls.write(left) :]
        self._flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Say that nothing more is sent; what comes in is still delivered."""
        if self._has_ended:
            return
        self._unread += self._read()  # or the end of TLS would drop it
        self._has_ended = True
        with suppress(ssl.SSLError):  # that the other direction has not ended
            self.tls.unwrap()
        self._flush()
        self._end_if_over()

    def close(self) -> None:
        if not self._is_closing:
            self.write_eof()
            self._is_closing = True
            self._raw.close()
            linger(self._raw)

    def abort(self) -> None:
        self._is_closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self.is_closing():
            self._is_paused = False
            self._raw.resume_reading()
            asyncio.get_running_loop().call_soon(self._deliver)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def _shake_hands(self) -> None:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError:
            self._flush()  # the alert, which says why
            self._raw.close()
            return
        self._flush()
        protocol = self._owner.handshake_over(self)
        if protocol is None:
            self.abort()
            return
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver()

    def _deliver(self) -> None:
        """Pass on what came in, and its end."""
        while self._protocol and not (self._is_paused or self._is_closing):
            data, self._unread = self._unread or self._read(), b""
            if data:
                self._protocol.data_received(data)
                continue
            if self._has_peer_ended and not self._has_told_end:
                self._has_told_end = True
                self._protocol.eof_received()
                self._end_if_over()
            return

    def _read(self) -> bytes:
        """Return the bytes that have come in, or none; note the end."""
        found: list[bytes] = []
        try:
            while not self._has_peer_ended and (self._incoming.pending or self.tls.pending()):  # an error costs a read
                if chunk := self.tls.read(_AT_ONCE):
                    found.append(chunk)
                else:
                    self._has_peer_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._has_peer_ended = True
        except ssl.SSLError:
            self.abort()
        return b"".join(found)

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _end_if_over(self) -> None:
        if self._has_peer_ended and self._has_ended:
            self.close()


def linger(transport: asyncio.Transport) -> None:
    """Abort a closing connection as soon as the other side has taken none of what is unsent for _LINGER seconds."""

    def look(unsent: int) -> None:
        left = transport.get_write_buffer_size()
        if left and left >= unsent:
            transport.abort()
        elif left:
            wait(_LINGER, look, left)

    wait = asyncio.get_running_loop().call_later
    if unsent := transport.get_write_buffer_size():
        wait(_LINGER, look, unsent)
