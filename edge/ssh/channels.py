"""The channels of one SSH connection: one for each connection to one of its tunnels."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import asyncssh

from chalicelib.model.tunnels import Proto, ServedTunnel
from edge.link import sockets
from edge.link.proxy_protocol import Address, Header
from edge.link.tls import linger
from edge.process.settings import Limits
from edge.ssh.asyncssh_internals import Connection, widen
from edge.ssh.buffers import Window
from edge.ssh.interfaces import Observer, Timer
from edge.ssh.metering import Counted
from edge.ssh.relay import Relay
from edge.ssh.tunnels import OnlineTunnel, Tunnels
from edge.ssh.visitors import visitor_of

Shown: TypeAlias = Callable[[Proto, str], Observer]  # of a connection of a tunnel that comes from an address
_MOMENT = 0.01  # seconds
_LATE = b"408: the request's body came too slowly.\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_LATE), _LATE)


class Listener(asyncssh.SSHListener):
    """The listener that asyncssh keeps for a granted `-R`, to end it when the client takes it back or goes.

    A client that has asked for port 0 is told its port.
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


class _Session(asyncssh.SSHTCPSession[bytes]):
    """The channel to the SSH client, which tells a relay of its events."""

    def __init__(self, relay: Relay, window: Window) -> None:
        self._relay, self._window = relay, window

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = chan
        self._relay.opened(chan)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self._relay.answered(data)
        if self._window.read(len(data)):
            widen(self._channel, self._window.size)

    def eof_received(self) -> bool:
        self._relay.upstream_ended()
        return True  # what its visitor sends is still written

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.channel_lost()

    def pause_writing(self) -> None:
        self._relay.stalled(self)

    def resume_writing(self) -> None:
        self._relay.moving(self)


class _FromEnvoy(Relay, asyncio.Protocol):
    """The connection from Envoy, which is its relay: what asyncio calls are the relay's events."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connected(cast(asyncio.Transport, transport))

    def close(self) -> None:
        super().close()
        if self._transport:
            linger(cast(asyncio.Transport, self._transport))


class _Joining:
    """One connection from Envoy on its way to a channel. Where there is no room it waits until its visitor is known."""

    relay: Relay

    def __init__(
        self,
        channels: "Channels",
        tunnel: OnlineTunnel,
        transport: asyncio.Transport,
        source: Address,
        counted: Counted,
    ) -> None:
        self._channels, self._tunnel, self._transport, self._counted = channels, tunnel, transport, counted
        self._source, self._tunnels = source, channels.tunnels
        self._task: asyncio.Task[None] | None = None
        self._window = self._tunnels.buffers.window(tunnel.id)
        self._has_given_way = False
        self.is_live = self._tunnels.has_room(tunnel)
        tunnel.connections.add(self)
        if self.is_live:
            self._tunnels.take_channel(tunnel)

    @property
    def address(self) -> str:
        return self._counted.address

    @property
    def visitor(self) -> str:
        return visitor_of(self.address)

    def open(self, relay: Relay) -> None:
        """Open the channel. Never cancelled: one that opens after all must be closed, which the relay does."""
        self._task = asyncio.create_task(self._open(relay))

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)

    def close(self) -> None:
        self.relay.close()

    def end(self) -> None:
        self.relay.end()

    def give_way(self) -> None:
        self._has_given_way = True
        self._free()
        self.end()

    def look(self, seconds: float) -> None:
        is_silent = self.relay.has_visitor_ended or self.relay.is_held
        if is_silent and sockets.is_closed_by_peer(self._transport.get_extra_info("socket")):
            self._visitor_has_gone()
        limits, body = self._channels.limits, self._counted.body
        if self.relay.is_held:
            body.unread()
        elif body.slow_for(seconds, limits.min_rate) > limits.min_rate_grace:
            self._tunnels.bodies_too_slow += 1
            self.relay.end(_TOO_SLOW)

    def _visitor_has_gone(self) -> None:
        if self.relay.has_visitor_ended:
            self._transport.abort()
        else:
            self.relay.visitor_left()

    def closed(self, relay: Relay) -> None:
        if relay in self._channels.relays:
            self._channels.relays.remove(relay)
            self._tunnel.connections.discard(self)
            self._free()
            if self._has_given_way:
                self._tunnels.ended(self._tunnel.carried.account)
            self._window.close()

    def _free(self) -> None:
        if self.is_live:
            self.is_live = False
            self._tunnels.give_channel_back(self._tunnel)

    async def _has_room(self) -> bool:
        """Take a channel where there was none; whose it shall be is known when the request has come."""
        if self.is_live:
            return True
        while not (self.address or self._counted.has_asked):
            if self._transport.is_closing():
                return False
            await asyncio.sleep(_MOMENT)
        self.is_live = self._tunnels.make_room(self._tunnel, self.visitor)
        if self.is_live:
            self._tunnels.take_channel(self._tunnel)
        return self.is_live

    async def _open(self, relay: Relay) -> None:
        try:
            if not await self._has_room():
                raise OSError("too many channels")
            connect = self._channels.connection.create_connection
            size = self._window.size
            asked = self._tunnel.asked
            await connect(lambda: _Session(relay, self._window), *asked, *self._source, window=size)
        except (asyncssh.Error, OSError):
            relay.refused()
        finally:
            relay.opening_is_over()


class Channels:
    """All of a connection; each is shown by an object that `shown` returns."""

    def __init__(self, connection: Connection, tunnels: Tunnels, limits: Limits, shown: Shown) -> None:
        self.connection, self.tunnels = connection, tunnels
        self.relays: set[Relay] = set()
        self.limits, self._shown = limits, shown
        self._is_held = False

    def connected(self, tunnel: OnlineTunnel, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        """Return the relay of a new connection, over a channel of its own if the tunnel may have one more."""
        source = (visitor and visitor.source) or transport.get_extra_info("peername", ("127.0.0.1", 0))[:2]
        known = visitor.source[0] if visitor and visitor.source else ""
        counted = Counted(tunnel.meter, self._shown(tunnel.opening.proto, source[0]), known)
        joining = _Joining(self, tunnel, transport, source, counted)
        joining.relay = relay = _FromEnvoy(joining, counted, self.limits, _first(tunnel.carried, visitor))
        self.relays.add(relay)
        if self._is_held:
            relay.hold(self)
        return relay

    def hold(self) -> None:
        """Read nothing more for the client, which reads more slowly."""
        self._is_held = True
        for relay in self.relays:
            relay.hold(self)

    def go_on(self) -> None:
        """Read for the client again."""
        self._is_held = False
        for relay in self.relays:
            relay.go_on(self)


def _first(tunnel: ServedTunnel, visitor: Header | None) -> bytes:
    """Return the header that what a tunnel leads to reads first: as its reservation says.

    A backend tunnel has none of its own. There Envoy speaks of visitors where the edge's reservation says so.
    """
    if tunnel.proxy_protocol:
        return (visitor or Header()).encoded()
    return visitor.encoded() if visitor and not (tunnel.name or visitor.is_private) else b""
