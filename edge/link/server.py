"""The hop from Envoy to a gateway: mutual TLS, where the server name is the id of the tunnel that is wanted.

Before it Envoy may say who its visitor is, by the PROXY protocol. Whoever has no certificate of the hop's authority
gets no byte through; a name that is no tunnel here is refused in the handshake.
"""

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

from edge.link import authority, proxy_protocol
from edge.link.authority import Authority
from edge.link.proxy_protocol import Header
from edge.link.renewal import PERIOD
from edge.link.tls import Secured

CLIENT = "edge"  # the name of Envoy's certificate
MOST_HANDSHAKES, HANDSHAKE_TIMEOUT = 1024, 5.0  # at once, as many as Envoy may well begin for an account; in seconds


class Target(Protocol):
    """A tunnel that takes connections."""

    def connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        """Return the protocol of a new connection; `visitor` is what Envoy said of it, None where it said nothing."""


Find = Callable[[str], Target | None]
Wanted: TypeAlias = "WeakKeyDictionary[object, Target]"


async def serve(
    hop: Authority, gateway: str, host: str, port: int, find: Find, *, period: float = PERIOD
) -> asyncio.Server:
    """Accept connections for the tunnels that `find` knows, with a fresh certificate after each period of seconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=hop.pem)
    wanted: Wanted = WeakKeyDictionary()

    def named(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> int | None:
        target = find(name or "")
        if target is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        wanted[connection] = target
        return None

    def renew() -> None:
        authority.load_into(context, hop.issue(gateway.lower()))
        loop.call_later(period, renew)

    loop = asyncio.get_running_loop()
    renew()
    context.sni_callback = named
    begun: set[_Arrived] = set()
    return await loop.create_server(lambda: _Arrived(context, wanted, begun), host, port, backlog=1024)


class _Arrived(asyncio.Protocol):
    """A connection before the end of its handshake. Of too many a random one goes, so that those who only wait keep
    nobody out.
    """

    def __init__(self, context: ssl.SSLContext, wanted: Wanted, begun: set["_Arrived"]) -> None:
        self._context, self._wanted, self._begun = context, wanted, begun
        self._early = b""
        self._visitor: Header | None = None

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
            self._visitor, length = found
            secured = Secured(self._context, self)
            self._transport.set_protocol(secured)
            secured.connection_made(self._transport)
            secured.received(self._early[length:])

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed()

    def drop(self) -> None:
        """End at once."""
        self.failed()
        self._transport.abort()

    def failed(self) -> None:
        self._late.cancel()
        self._begun.discard(self)

    def shaken(self, secured: Secured) -> asyncio.Protocol | None:
        self.failed()
        target = self._wanted.get(secured.tls)  # none without a server name, which the callback is not asked about
        return target.connected(secured, self._visitor) if target else None
