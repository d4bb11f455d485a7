"""Passes bytes between the channels of a tunnel and the local server, unchanged."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

import asyncssh

from tunnel_edge.api.client import is_loopback
from tunnel_edge.tunnels import windows
from tunnel_edge.tunnels.requested import LocalServer

_TIMEOUT = 10.0  # seconds to connect to the local server
_HIGH_WATER = 256 * 1024  # bytes that may wait for a slow reader, in each direction of a connection


class Tap(Protocol):
    """Receives copies of the bytes of one connection, for the inspector. No method may raise or block."""

    def on_request(self, data: bytes) -> None:
        """Receive a copy of bytes that go to the local server. b"" marks their end."""

    def on_response(self, data: bytes) -> None:
        """Receive a copy of bytes that come from the local server. b"" marks their end."""

    def on_close(self) -> None:
        """Handle the end of the connection."""


class NoTap:
    """A tap that ignores all bytes."""

    def on_request(self, data: bytes) -> None:
        pass

    def on_response(self, data: bytes) -> None:
        pass

    def on_close(self) -> None:
        pass


class Relay:
    """Connects each channel of a tunnel to the local server. `on_refused` is called if that fails."""

    def __init__(self, server: LocalServer, open_tap: Callable[[str], Tap], on_refused: Callable[[str], None]) -> None:
        self._server, self._open_tap, self._on_refused = server, open_tap, on_refused
        self._context = create_context(server)
        self._open: set[_Local] = set()

    def close(self) -> None:
        """Close all connections to the local server. Call this only after the SSH connection has ended."""
        for local in list(self._open):
            local.abort()

    async def accept(self, host: str, _port: int) -> asyncssh.SSHTCPSession[bytes]:
        """Connect to the local server. Return the session for the new channel."""
        local = _Local(self._open_tap(host), self._open, is_tls=self._server.is_tls)
        try:
            async with asyncio.timeout(_TIMEOUT):
                await asyncio.get_running_loop().create_connection(
                    lambda: local, self._server.host, self._server.port, ssl=self._context
                )
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
            self._on_refused(f"{self._server} does not accept connections: {reason}")
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_CONNECT_FAILED, "the local server refused the connection"
            ) from None
        return local.channel_end


class _Local(asyncio.Protocol):
    """A connection to the local server. Passes received bytes to the channel."""

    def __init__(self, tap: Tap, peers: "set[_Local]", *, is_tls: bool) -> None:
        self._tap, self._peers, self._is_tls = tap, peers, is_tls
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self.channel_end = _Remote(self, tap)
        self._is_over = self._is_closed = False
        self.is_request_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._peers.add(self)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._transport.pause_reading()  # bytes can only be passed on after `attach`

    def attach(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        """Begin to pass bytes to the channel, which is open now."""
        self._channel = channel
        channel.set_write_buffer_limits(high=_HIGH_WATER)
        if self._is_closed:
            channel.close()
        else:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def end_request(self) -> None:
        """Send the end of the visitor's data to the local server.

        A TLS connection stays open instead, because asyncio cannot close only one direction of TLS.
        """
        self.is_request_over = True
        if self._is_over:
            self._transport.close()
        elif self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self._is_over:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._channel:
            self._channel.write(data)
        self._tap.on_response(data)

    def eof_received(self) -> bool:
        self._is_over = True
        if self._channel:
            self._channel.write_eof()
        self._tap.on_response(b"")
        return not (self._is_tls or self.is_request_over)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = self._is_over = True
        self._peers.discard(self)
        if self._channel:
            self._channel.close()
        self._tap.on_close()

    def pause_writing(self) -> None:
        if self._channel:
            self._channel.pause_reading()

    def resume_writing(self) -> None:
        if self._channel:
            self._channel.resume_reading()


class _Remote(asyncssh.SSHTCPSession[bytes]):
    """The channel of a visitor's connection. Passes received bytes to the local server."""

    def __init__(self, local: _Local, tap: Tap) -> None:
        self._local, self._tap = local, tap

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        windows.bound(chan)
        self._chan = chan

    def session_started(self) -> None:
        self._local.attach(self._chan)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self._local.write(data)
        self._tap.on_request(data)

    def eof_received(self) -> bool:
        self._local.end_request()
        self._tap.on_request(b"")
        return True  # keep the connection open, so that the response is still sent

    def connection_lost(self, exc: Exception | None) -> None:
        windows.release(self._chan)
        if exc:
            self._local.abort()
        else:
            self._local.close()

    def pause_writing(self) -> None:
        self._local.pause()

    def resume_writing(self) -> None:
        self._local.resume()


def create_context(server: LocalServer) -> ssl.SSLContext | None:
    """Return the TLS settings for a local server. Return None without TLS.

    The certificate of the server is verified, unless the server is on this machine.
    """
    if not server.is_tls:
        return None
    context = ssl.create_default_context()
    if is_loopback(server.host):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
