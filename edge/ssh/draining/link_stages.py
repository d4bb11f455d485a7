"""The link ports that a gateway opens one after the other while it drains, and the connections of each."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakSet

from edge.link import server as link
from edge.link import sockets
from edge.link.authority import Authority
from edge.link.server import Find
from edge.link.tls import TlsTransport
from edge.process.settings import Settings

_Connections = WeakSet[asyncio.Transport]


class LinkStages:
    """The stages of a gateway's link. Each has a port; the Unix socket for Envoy on this host belongs to the last.

    Envoy requests a new address for HTTP, because it keeps connections. Each connection of bytes is a new one, so the
    time of its beginning decides its stage.
    """

    def __init__(self, settings: Settings, authority: Authority, gateway: str) -> None:
        self._settings, self._authority, self._gateway = settings, authority, gateway
        self._servers: list[asyncio.Server] = []
        self._connections: list[_Connections] = []
        self._find: Find = lambda _: None

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve the Unix socket, and the ports that are opened meanwhile."""
        path = self._settings.link_socket(self._gateway)
        sockets.remove_stale(path.parent.glob("gw-*.sock"))
        try:
            async with link.serve_locally(path, lambda id: self._find(id), self):
                yield
        finally:
            for server in self._servers:
                server.close()
            self._servers.clear()
            self._connections.clear()

    async def open(self, find: Find) -> int:
        """Begin a stage, with the tunnels that `find` returns. Return its port."""
        settings, accepted, stage = self._settings, _Connections(), len(self._servers)
        address = settings.hop_host, settings.link_port(stage)
        server = await link.serve(self._authority, self._gateway, *address, find, accepted=accepted)
        sockets.set_options(server.sockets, settings.limits.max_socket_kib << 10)
        self._servers.append(server)
        self._connections.append(accepted)
        self._find = find
        return int(server.sockets[0].getsockname()[1])

    def add(self, transport: asyncio.Transport) -> None:
        """Add a connection at the Unix socket."""
        self._connections[-1].add(transport)

    def count(self, stage: int) -> int:
        """Return how many connections of a stage are open."""
        return len(self._list_open(stage))

    def close(self, stage: int) -> None:
        """Close the connections of a stage after sending what was written."""
        for transport in self._list_open(stage):
            protocol = transport.get_protocol()
            (protocol if isinstance(protocol, TlsTransport) else transport).close()

    def _list_open(self, stage: int) -> list[asyncio.Transport]:
        return [it for it in self._connections[stage] if it.get_extra_info("socket").fileno() >= 0]
