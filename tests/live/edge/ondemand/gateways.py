"""A gateway of the tests, whose tunnels answer as the path of a request says."""

import asyncio
import contextlib
import re
from collections.abc import Iterator

from chalicelib.model.tunnels.gateways import Gateway
from edge.link import server
from edge.link.proxy_protocol import Header
from tests.live.edge.ondemand.tables import GATEWAY, Table
from tests.live.edge.running import upgrade


@contextlib.contextmanager
def gateway(table: Table, id: str = GATEWAY) -> Iterator[list[Header | None]]:
    """Run a gateway. Yield the PROXY headers of its connections."""
    visitors: list[Header | None] = []
    listening = table.run(server.serve(table.link, id, "127.0.0.1", 0, lambda name: _Tunnel(name, visitors)))
    table.records.gateways[id] = Gateway(id, "127.0.0.1", listening.sockets[0].getsockname()[1])
    try:
        yield visitors
    finally:
        table.loop.call_soon_threadsafe(listening.close)


class _Tunnel(asyncio.Protocol):
    """A tunnel. `/slow` takes two seconds, `/socket` is a WebSocket that echoes, and others show the request."""

    def __init__(self, id: str, visitors: list[Header | None]) -> None:
        self._id, self._visitors, self._read, self._is_socket = id, visitors, b"", False

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        self._visitors.append(visitor)
        return _Tunnel(self._id, self._visitors)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_socket:
            self._transport.write(data)
            return
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        if head.startswith(b"GET /socket"):
            key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
            assert key
            self._transport.write(upgrade(key[1].decode()))
            self._is_socket = True
            return
        body = self._id.encode() + b"\n" + head
        response = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        delay = 2 if head.startswith(b"GET /slow") else 0
        asyncio.get_running_loop().call_later(delay, self._transport.write, response)
