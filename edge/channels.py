"""The channels of one SSH connection: one for each connection to one of its tunnels."""

import asyncio
from collections.abc import Callable

import asyncssh

from edge.connection import Connection
from edge.exchange import Exchange
from edge.relay import Channel, Relay
from edge.settings import Limits
from edge.tunnels import Tunnel, Tunnels


class Listener(asyncssh.SSHListener):
    """The listener that asyncssh keeps for a granted `-R`, to end it when the client takes it back or goes."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end = end

    def close(self) -> None:
        self._end()

    async def wait_closed(self) -> None:
        pass


class Channels:
    """All of a connection; each is shown by an object that `shown` returns."""

    def __init__(self, connection: Connection, tunnels: Tunnels, limits: Limits, shown: Callable[[], Exchange]) -> None:
        self._connection, self._tunnels, self._limits, self._shown = connection, tunnels, limits, shown
        self._relays: set[Relay] = set()
        self._is_held = False

    def connected(self, tunnel: Tunnel, transport: asyncio.Transport) -> Relay:
        """Return what relays a new connection, over a channel of its own if the tunnel may have one more."""
        account, has_room = tunnel.leased.account, self._tunnels.has_room(tunnel)
        tunnel.connections.add(transport)
        self._tunnels.take_channel(account)
        peer = transport.get_extra_info("peername", ("127.0.0.1", 0))

        async def opened(channel: Channel) -> None:
            if not has_room:
                raise OSError("too many channels")
            await self._connection.create_connection(lambda: channel, *tunnel.asked, peer[0], peer[1])

        def closed() -> None:
            if relay in self._relays:
                self._relays.remove(relay)
                tunnel.connections.discard(transport)
                self._tunnels.give_channel_back(account)

        relay = Relay(opened, closed, self._shown(), self._limits)
        self._relays.add(relay)
        if self._is_held:
            relay.hold(self)
        return relay

    def hold(self) -> None:
        """Read nothing more for the client, which reads more slowly."""
        self._is_held = True
        for relay in self._relays:
            relay.hold(self)

    def go_on(self) -> None:
        """Read for the client again."""
        self._is_held = False
        for relay in self._relays:
            relay.go_on(self)
