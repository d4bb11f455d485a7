"""The channels of one SSH connection. Each connection from Envoy to one of the client's tunnels has a channel."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import asyncssh

from chalicelib.model.tunnels.tunnels import Proto, ServedTunnel
from edge.link import sockets
from edge.link.proxy_protocol import Address, Header
from edge.link.tls import linger
from edge.process.settings import Limits
from edge.ssh.asyncssh_internals import Connection, ReadWindow
from edge.ssh.data.buffers import Window
from edge.ssh.data.interfaces import Observer, Timer
from edge.ssh.data.metering import MeteredConnection
from edge.ssh.data.relay import Relay
from edge.ssh.data.visitors import get_visitor
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.tunnels import Tunnels

# a function that creates an observer. Parameters: the tunnel's protocol, and the visitor's address
CreateView: TypeAlias = Callable[[Proto, str], Observer]
_POLL = 0.01  # seconds between checks whether the visitor's address has arrived
_TIMEOUT_BODY = b"408: the request body arrived too slowly.\n"
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_TIMEOUT_BODY),
    _TIMEOUT_BODY,
)


class Listener(asyncssh.SSHListener):
    """Represents an accepted `ssh -R` in asyncssh.

    asyncssh calls `close` when the client cancels the tunnel or leaves. If the client requested port 0, asyncssh sends
    `port` to the client.
    """

    def __init__(self, port: int, end: Callable[[], None]) -> None:
        super().__init__()
        self._port, self._end = port, end

    def get_port(self) -> int:
        return self._port

    def close(self) -> None:
        self._end()

    async def wait_closed(self) -> None:
        pass


class Channels:
    """All channels of an SSH connection.

    `create_view` returns an observer, which shows a visitor's connection in the client's terminals.
    """

    def __init__(self, connection: Connection, tunnels: Tunnels, limits: Limits, create_view: CreateView) -> None:
        self.connection, self.tunnels = connection, tunnels
        self.relays: set[Relay] = set()
        self.limits, self._create_view = limits, create_view
        self._is_paused = False

    def accept(self, tunnel: OnlineTunnel, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        """Return the relay of a new connection from Envoy.

        The relay opens a channel, if the tunnel can have one more.
        """
        source = (visitor and visitor.source) or transport.get_extra_info("peername", ("127.0.0.1", 0))[:2]
        address = visitor.source[0] if visitor and visitor.source else ""
        metered = MeteredConnection(tunnel.meter, self._create_view(tunnel.opening.proto, source[0]), address)
        connection = _Connection(self, tunnel, transport, source, metered)
        connection.relay = relay = _EnvoyRelay(connection, metered, self.limits, _build_header(tunnel.record, visitor))
        self.relays.add(relay)
        if self._is_paused:
            relay.pause(self)
        return relay

    def pause(self) -> None:
        """Stop reading from Envoy while the SSH client reads too slowly."""
        self._is_paused = True
        for relay in self.relays:
            relay.pause(self)

    def resume(self) -> None:
        """Read from Envoy again, because the SSH client has caught up."""
        self._is_paused = False
        for relay in self.relays:
            relay.resume(self)


class _ChannelSession(asyncssh.SSHTCPSession[bytes]):
    """Passes asyncssh's events of a channel to the relay between the channel and Envoy."""

    def __init__(self, relay: Relay, window: Window) -> None:
        self._relay, self._window = relay, window

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._read_window = ReadWindow(chan)
        self._relay.on_opened(chan)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self._relay.on_response(data)
        if self._window.on_read(len(data)):
            self._read_window.resize(self._window.size)

    def eof_received(self) -> bool:
        self._relay.on_upstream_end()
        return True  # the channel stays open, since the visitor can send more data

    def connection_lost(self, exc: Exception | None) -> None:
        self._read_window.close()
        self._relay.on_channel_closed()

    def pause_writing(self) -> None:
        self._relay.on_stalled(self)

    def resume_writing(self) -> None:
        self._relay.on_drained(self)


class _EnvoyRelay(Relay, asyncio.Protocol):
    """A relay that is also the asyncio protocol of its connection from Envoy."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.on_connected(cast(asyncio.Transport, transport))

    def close(self) -> None:
        super().close()
        if self._transport:
            linger(cast(asyncio.Transport, self._transport))


class _Connection:
    """A connection from Envoy, for which a channel is opened.

    If a limit on channels is reached, the channel is opened only after the first request has arrived, because the
    request contains the visitor's address.
    """

    relay: Relay

    def __init__(
        self,
        channels: Channels,
        tunnel: OnlineTunnel,
        transport: asyncio.Transport,
        source: Address,
        metered: MeteredConnection,
    ) -> None:
        self._channels, self._tunnel, self._transport, self._metered = channels, tunnel, transport, metered
        self._source, self._tunnels, self._quota = source, channels.tunnels, channels.tunnels.channels
        self._task: asyncio.Task[None] | None = None
        self._window = self._tunnels.buffers.open_window(tunnel.id)
        self._is_evicted = False
        self.has_channel = self._quota.has_room(tunnel)
        tunnel.connections.add(self)
        if self.has_channel:
            self._quota.take(tunnel)

    @property
    def address(self) -> str:
        return self._metered.address

    @property
    def visitor(self) -> str:
        return get_visitor(self.address)

    def open(self, relay: Relay) -> None:
        """Start a task that opens the channel.

        The task is never cancelled, because the relay must close a channel that the SSH client opens late.
        """
        self._task = asyncio.create_task(self._open(relay))

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)

    def close(self) -> None:
        self.relay.close()

    def abort(self) -> None:
        self.relay.abort()

    def evict(self) -> None:
        self._is_evicted = True
        self._release()
        self.abort()

    def check(self, seconds: float) -> None:
        is_silent = self.relay.has_visitor_ended or self.relay.is_paused
        if is_silent and sockets.is_closed_by_peer(self._transport.get_extra_info("socket")):
            self._on_visitor_left()
        limits, body = self._channels.limits, self._metered.body
        if self.relay.is_paused:
            body.reset_rate()
        elif body.count_slow_seconds(seconds, limits.min_rate) > limits.min_rate_grace:
            self._tunnels.bodies_too_slow += 1
            self.relay.abort(_TIMEOUT)

    def on_relay_end(self, relay: Relay) -> None:
        if relay in self._channels.relays:
            self._channels.relays.remove(relay)
            self._tunnel.connections.discard(self)
            self._release()
            if self._is_evicted:
                self._quota.on_evicted_closed(self._tunnel.record.account)
            self._window.close()

    def _on_visitor_left(self) -> None:
        if self.relay.has_visitor_ended:
            self._transport.abort()
        else:
            self.relay.on_visitor_left()

    def _release(self) -> None:
        if self.has_channel:
            self.has_channel = False
            self._quota.release(self._tunnel)

    async def _open(self, relay: Relay) -> None:
        try:
            if not await self._take_channel():
                raise OSError("too many channels")
            connect = self._channels.connection.create_connection
            size = self._window.size
            address = self._tunnel.requested_address
            await connect(lambda: _ChannelSession(relay, self._window), *address, *self._source, window=size)
        except (asyncssh.Error, OSError):
            relay.on_refused()
        finally:
            relay.on_opening_end()

    async def _take_channel(self) -> bool:
        """Return whether there is room for the channel.

        If a limit is reached, wait for the first request. The visitor's address in the request decides whether a
        channel of another visitor is evicted.
        """
        if self.has_channel:
            return True
        while not (self.address or self._metered.has_request):
            if self._transport.is_closing():
                return False
            await asyncio.sleep(_POLL)
        self.has_channel = self._quota.make_room(self._tunnel, self.visitor)
        if self.has_channel:
            self._quota.take(self._tunnel)
        return self.has_channel


def _build_header(tunnel: ServedTunnel, visitor: Header | None) -> bytes:
    """Return the PROXY protocol header to send to an upstream, or b"" for none.

    The upstream receives the header before all other data. If the tunnel has a name, the reservation of the name
    decides whether there is a header. A backend tunnel has no name: its upstream receives the header that Envoy has
    sent. Envoy marks a header as private if only the gateway may read it. The upstream does not receive such a header.
    """
    if tunnel.proxy_protocol:
        return (visitor or Header()).encoded()
    return visitor.encoded() if visitor and not (tunnel.name or visitor.is_private) else b""
