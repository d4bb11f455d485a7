"""The link from Envoy to a gateway: mutual TLS, where the server name is the id of the tunnel that is wanted.

Before it Envoy may say who its visitor is, by the PROXY protocol. Whoever has no certificate of the link's authority
gets no byte through; a name that is no tunnel here is refused in the handshake. An Envoy on the gateway's own host also
has a socket, for connections of bytes.
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
from edge.link.tls import Secured
from edge.process import files

CLIENT = "edge"  # the name of Envoy's certificate
MOST_HANDSHAKES, HANDSHAKE_TIMEOUT = 1024, 5.0  # at once, as many as Envoy may well begin for an account; in seconds


class Target(Protocol):
    """A tunnel that takes connections."""

    def connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        """Return the protocol of a new connection; `visitor` is what Envoy said of it, None where it said nothing."""


Find = Callable[[str], Target | None]
Wanted: TypeAlias = "WeakKeyDictionary[object, Target]"


async def serve(
    link_authority: Authority, gateway: str, host: str, port: int, find: Find, *, period: float = PERIOD
) -> asyncio.Server:
    """Accept connections for the tunnels that `find` knows, with a fresh certificate after each period of seconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=link_authority.pem)
    wanted: Wanted = WeakKeyDictionary()

    def named(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        target = find(name or "")
        if target is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        wanted[connection] = target
        return None

    def renew() -> None:
        loop.call_later(period, renew)  # before what may fail, as for want of a file descriptor
        authority.load_into(context, link_authority.issue(gateway.lower()))

    loop = asyncio.get_running_loop()
    renew()
    context.sni_callback = named
    begun: set[_Arriving] = set()
    return await loop.create_server(lambda: _Arrived(context, wanted, begun), host, port, backlog=1024)


@contextlib.asynccontextmanager
async def serving_near(path: Path, find: Find) -> AsyncIterator[None]:
    """Accept connections of an Envoy on this host at a Unix socket, without TLS, for the tunnels that `find` knows.

    Whoever can open the socket, of mode 0660, is believed: its header of the PROXY protocol names visitor and tunnel.
    """
    begun: set[_Arriving] = set()
    before = os.umask(0o117)  # so that there is no moment at which others may open it
    try:
        with files.shorten_socket_path(path) as short:
            server = await asyncio.get_running_loop().create_unix_server(
                lambda: _Near(find, begun), str(short), backlog=1024
            )
    finally:
        os.umask(before)
    try:
        async with server:
            yield
    finally:
        path.unlink(missing_ok=True)


class _Arriving(asyncio.Protocol):
    """A connection whose tunnel is not known yet. Of too many a random one is dropped: silent ones keep nobody out."""

    def __init__(self, begun: set["_Arriving"]) -> None:
        self._begun = begun
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._late = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT, self.drop)
        self._begun.add(self)
        if len(self._begun) > MOST_HANDSHAKES:
            random.choice(list(self._begun)).drop()

    def data_received(self, data: bytes) -> None:
        self._early += data
        try:
            found = proxy_protocol.read(self._early)
        except ValueError:
            self.drop()
            return
        if found:
            visitor, length = found
            self._begins(visitor, self._early[length:])

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed()

    def drop(self) -> None:
        """End at once."""
        self.failed()
        self._transport.abort()

    def failed(self) -> None:
        self._late.cancel()
        self._begun.discard(self)

    def _begins(self, visitor: Header | None, early: bytes) -> None:
        """Go on behind the header, with the bytes that came with it."""
        raise NotImplementedError


class _Arrived(_Arriving):
    """A connection before the end of its handshake."""

    def __init__(self, context: ssl.SSLContext, wanted: Wanted, begun: set[_Arriving]) -> None:
        super().__init__(begun)
        self._context, self._wanted = context, wanted
        self._visitor: Header | None = None

    def _begins(self, visitor: Header | None, early: bytes) -> None:
        self._visitor = visitor
        secured = Secured(self._context, self)
        self._transport.set_protocol(secured)
        secured.connection_made(self._transport)
        secured.received(early)

    def handshake_over(self, secured: Secured) -> asyncio.Protocol | None:
        self.failed()
        target = self._wanted.get(secured.tls)  # none without a server name, which the callback is not asked about
        return target.connected(secured, self._visitor) if target else None


class _Near(_Arriving):
    """A connection of an Envoy on this host, before it has named its tunnel."""

    def __init__(self, find: Find, begun: set[_Arriving]) -> None:
        super().__init__(begun)
        self._find = find

    def _begins(self, visitor: Header | None, early: bytes) -> None:
        target = self._find(visitor.tunnel) if visitor else None
        if target is None:
            self.drop()
            return
        self.failed()
        protocol = target.connected(self._transport, visitor)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if early:
            protocol.data_received(early)
