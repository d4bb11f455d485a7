"""TLS for connections to gateways, in which each direction can end separately, as in TCP.

asyncio's TLS closes both directions at once. A visitor that has sent everything could then not receive a response.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Protocol, cast

_AT_ONCE = 64 << 10  # the most bytes in one read
# All connections share this buffer: asyncio calls `buffer_updated` at once after each read into it.
_BUFFER = memoryview(bytearray(_AT_ONCE))
_MAX_UNSENT = 64 << 10  # unsent bytes of a connection. If there are more, the protocol must pause writing
_LINGER = 60.0  # seconds without progress after which a closing connection with unsent bytes is aborted


class Owner(Protocol):
    """Decides after the handshake which protocol receives the decrypted data."""

    def handshake_over(self, secured: "TlsTransport") -> asyncio.Protocol | None:
        """Return the protocol that receives the decrypted data, or None to end the connection."""

    def on_failed(self) -> None:
        """Handle a connection that has ended before its handshake was complete."""


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """A TLS connection. It is the asyncio protocol of a socket, and the asyncio transport of the protocol above TLS.

    For a client, `server_name` is the name that it requests. The client must call `begin`.
    """

    def __init__(self, context: ssl.SSLContext, owner: Owner, server_name: str | None = None) -> None:
        super().__init__()
        self._owner = owner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_name is None
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server, server_hostname=server_name)
        self._protocol: asyncio.Protocol | None = None
        self._unread = b""  # decrypted bytes that are not delivered yet
        self._is_paused = self._is_closing = False
        self._has_peer_ended = self._is_end_delivered = self._has_ended = False

    # Methods of the asyncio protocol, which the transport of the socket calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._raw.set_write_buffer_limits(high=_MAX_UNSENT)

    def begin(self) -> None:
        """Send the first message of the handshake."""
        self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.receive(_BUFFER[:nbytes])

    def receive(self, data: bytes | memoryview) -> None:
        """Handle encrypted bytes from the socket."""
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
            self._owner.on_failed()

    # Methods of the asyncio transport, which the protocol above TLS calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_ended or self._is_closing:
            return
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[self.tls.write(unsent) :]
        self._flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send the end of outgoing data. Incoming data is still delivered."""
        if self._has_ended:
            return
        self._unread += self._read()  # `unwrap` would drop data that was received but not read
        self._has_ended = True
        with suppress(ssl.SSLError):  # `unwrap` fails because the other direction is still open
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
            self._flush()  # sends the TLS alert with the reason of the failure
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
        """Pass decrypted data, and the end of incoming data, to the protocol."""
        while self._protocol and not (self._is_paused or self._is_closing):
            data, self._unread = self._unread or self._read(), b""
            if data:
                self._protocol.data_received(data)
                continue
            if self._has_peer_ended and not self._is_end_delivered:
                self._is_end_delivered = True
                self._protocol.eof_received()
                self._end_if_over()
            return

    def _read(self) -> bytes:
        """Return the bytes that can be decrypted now. Record the end of incoming data."""
        chunks: list[bytes] = []
        try:
            # If no bytes are pending, a read would raise an exception, which is slow.
            while not self._has_peer_ended and (self._incoming.pending or self.tls.pending()):
                if chunk := self.tls.read(_AT_ONCE):
                    chunks.append(chunk)
                else:
                    self._has_peer_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._has_peer_ended = True
        except ssl.SSLError:
            self.abort()
        return b"".join(chunks)

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _end_if_over(self) -> None:
        if self._has_peer_ended and self._has_ended:
            self.close()


def linger(transport: asyncio.Transport) -> None:
    """Abort a closing connection when its peer has accepted no unsent bytes for _LINGER seconds."""

    def check(unsent: int) -> None:
        remaining = transport.get_write_buffer_size()
        if remaining and remaining >= unsent:
            transport.abort()
        elif remaining:
            wait(_LINGER, check, remaining)

    wait = asyncio.get_running_loop().call_later
    if unsent := transport.get_write_buffer_size():
        wait(_LINGER, check, unsent)
