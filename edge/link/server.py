"""Accepts connections from Envoy to tunnels of a gateway, by mutual TLS.

The server name is the id of a tunnel. Before TLS, Envoy can send the visitor's address by the PROXY protocol. Bytes
reach a tunnel only if the client has a certificate of the edge's authority. The handshake fails if the server name is
not a tunnel of this gateway. An Envoy on the same host can also use a Unix socket without TLS.
"""

import asyncio
import contextlib
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

from edge.link import authority, proxy_protocol
from edge.link.authority import Authority
from edge.link.proxy_protocol import Header
from edge.link.renewal import PERIOD
from edge.link.tls import TlsTransport
from edge.process import files

CLIENT, SIGN_IN = "edge", "sign-in"  # the names in the certificates of Envoy and of the sign-in service
# The most concurrent handshakes. One account can reach this limit, so a random handshake is then ended.
MAX_HANDSHAKES = 1024
HANDSHAKE_TIMEOUT = 5.0  # the most seconds for one handshake


class Acceptor(Protocol):
    """Creates the protocols for the connections to one tunnel."""

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        """Return the protocol for a new connection. `visitor` is its PROXY protocol header, or None."""


class ConnectionSet(Protocol):
    """A collection to which accepted connections are added."""

    def add(self, transport: asyncio.Transport, /) -> None:
        """Add an accepted connection."""


Find = Callable[[str], Acceptor | None]
Requested: TypeAlias = "WeakKeyDictionary[object, Acceptor]"


async def serve(
    link_authority: Authority,
    gateway: str,
    host: str,
    port: int,
    find: Find,
    *,
    period: float = PERIOD,
    connections: ConnectionSet | None = None,
) -> asyncio.Server:
    """Accept TLS connections from Envoys to tunnels.

    The server name of a connection is the id of a tunnel, which `find` returns. The server's certificate is renewed
    every `period` seconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=link_authority.pem)
    requested: Requested = WeakKeyDictionary()

    def check_name(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        target = find(name or "")
        if target is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        requested[connection] = target
        return None

    def renew() -> None:
        # this line comes first, because a renewal can fail, for example if no file descriptor is free
        loop.call_later(period, renew)
        authority.load_into(context, link_authority.issue(gateway.lower()))

    loop = asyncio.get_running_loop()
    renew()
    context.sni_callback = check_name
    pending = _PendingConnections(connections)
    return await loop.create_server(lambda: _RemotePending(context, requested, pending), host, port, backlog=1024)


@contextlib.asynccontextmanager
async def serve_locally(path: Path, accept: Callable[[asyncio.Transport], Find]) -> AsyncIterator[None]:
    """Accept connections from Envoys on this host at a Unix socket, without TLS.

    A PROXY protocol header names the visitor and the tunnel. `accept` is called once for each connection, before the
    header is read, and returns the function that finds the tunnel. Every client that can open the socket, which has
    mode 0660, is trusted.
    """
    pending = _PendingConnections(None)
    before = os.umask(0o117)  # creates the socket with the mode 0660
    try:
        with files.shorten_socket_path(path) as short:
            server = await asyncio.get_running_loop().create_unix_server(
                lambda: _LocalPending(accept, pending), str(short), backlog=1024, **files.KEEP_SOCKET
            )
    finally:
        os.umask(before)
    try:
        # `async with` would wait until all connections have ended (from Python 3.12.1 on)
        with contextlib.closing(server):
            yield
    finally:
        path.unlink(missing_ok=True)


class _PendingConnections(set["_Pending"]):
    """Connections for which no tunnel is known yet.

    The transport of each connection is also added to `connections`, and remains there when the tunnel is known.
    """

    def __init__(self, connections: ConnectionSet | None) -> None:
        super().__init__()
        self.connections = connections


class _Pending(asyncio.Protocol):
    """A connection for which no tunnel is known yet.

    If there are too many such connections, a random one is dropped, so that silent clients cannot block others.
    """

    def __init__(self, pending: _PendingConnections) -> None:
        self._pending = pending
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timeout = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT, self.drop)
        self._pending.add(self)
        if self._pending.connections is not None:
            self._pending.connections.add(self._transport)
        if len(self._pending) > MAX_HANDSHAKES:
            random.choice(list(self._pending)).drop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            parsed = proxy_protocol.read(self._received)
        except ValueError:
            self.drop()
            return
        if parsed:
            visitor, length = parsed
            self._start(visitor, self._received[length:])

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_failed()

    def drop(self) -> None:
        """Abort this connection, because too many connections are pending."""
        self.on_failed()
        self._transport.abort()

    def on_failed(self) -> None:
        self._timeout.cancel()
        self._pending.discard(self)

    def _start(self, visitor: Header | None, early: bytes) -> None:
        """Handle the bytes that arrived after the PROXY protocol header."""
        raise NotImplementedError


class _RemotePending(_Pending):
    """A connection from another host until its TLS handshake is complete."""

    def __init__(self, context: ssl.SSLContext, requested: Requested, pending: _PendingConnections) -> None:
        super().__init__(pending)
        self._context, self._requested = context, requested
        self._visitor: Header | None = None

    def _start(self, visitor: Header | None, early: bytes) -> None:
        self._visitor = visitor
        secured = TlsTransport(self._context, self)
        self._transport.set_protocol(secured)
        secured.connection_made(self._transport)
        secured.receive(early)

    def handshake_over(self, secured: TlsTransport) -> asyncio.Protocol | None:
        self.on_failed()
        target = self._requested.get(secured.tls)  # None if the client sent no server name
        return target.on_connected(secured, self._visitor) if target else None


class _LocalPending(_Pending):
    """A connection of an Envoy on this host until its PROXY protocol header is complete."""

    def __init__(self, accept: Callable[[asyncio.Transport], Find], pending: _PendingConnections) -> None:
        super().__init__(pending)
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._find = self._accept(self._transport)

    def _start(self, visitor: Header | None, early: bytes) -> None:
        target = self._find(visitor.tunnel) if visitor else None
        if target is None:
            self.drop()
            return
        self.on_failed()
        protocol = target.on_connected(self._transport, visitor)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if early:
            protocol.data_received(early)
