"""The ports at which a gateway accepts Envoy's connections. Each stage of a drain opens a new port."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from weakref import WeakSet

from edge.link import server as link
from edge.link import sockets
from edge.link.authority import Authority
from edge.link.server import Find
from edge.link.tls import TlsTransport
from edge.process.settings import Settings

_Connections = WeakSet[asyncio.Transport]


@dataclass(frozen=True)
class _Stage:
    """A stage of a gateway's drain, with its port for Envoy and the connections to this port.

    `find` returns the tunnel to which a new connection belongs, by the tunnel's id.
    """

    find: Find
    server: asyncio.Server
    connections: _Connections


class LinkStages:
    """The stages of a gateway. It serves in stage 0, and drains in the stages 1 and 2.

    Each stage has a port for Envoys on other hosts. A new port is necessary because Envoy reuses connections for HTTP
    as long as the port stays the same. Envoys on this host use one Unix socket for all stages: their connections belong
    to the stage in which they were opened. The stage of a connection decides whether the connection is held for a
    tunnel's successor.
    """

    def __init__(self, settings: Settings, authority: Authority, gateway: str) -> None:
        self._settings, self._authority, self._gateway = settings, authority, gateway
        self._stages: list[_Stage] = []

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve the Unix socket. Close all ports at the end."""
        path = self._settings.link_socket(self._gateway)
        sockets.remove_stale(path.parent.glob("gw-*.sock"))
        try:
            async with link.serve_locally(path, self._accept):
                yield
        finally:
            for stage in self._stages:
                stage.server.close()
            self._stages.clear()

    async def open(self, find: Find) -> int:
        """Begin the next stage. Return the port that is opened for it.

        `find` returns the tunnel to which a new connection of this stage belongs, by the tunnel's id.
        """
        settings, connections = self._settings, _Connections()
        address = settings.hop_host, settings.link_port(len(self._stages))
        server = await link.serve(self._authority, self._gateway, *address, find, connections=connections)
        sockets.set_options(server.sockets, settings.limits.max_socket_kib << 10)
        self._stages.append(_Stage(find, server, connections))
        return int(server.sockets[0].getsockname()[1])

    def count(self, stage: int) -> int:
        """Return how many connections of a stage are open."""
        return len(self._list_open(stage))

    def close(self, stage: int) -> None:
        """Close the connections of a stage after sending their buffered data."""
        for transport in self._list_open(stage):
            protocol = transport.get_protocol()
            (protocol if isinstance(protocol, TlsTransport) else transport).close()

    def _accept(self, transport: asyncio.Transport) -> Find:
        """Add a new connection at the Unix socket to the latest stage. Return the function `find` of this stage."""
        stage = self._stages[-1]
        stage.connections.add(transport)
        return stage.find

    def _list_open(self, stage: int) -> list[asyncio.Transport]:
        return [
            transport
            for transport in self._stages[stage].connections
            if transport.get_extra_info("socket").fileno() >= 0
        ]
