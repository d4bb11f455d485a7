"""The hop from Envoy to a gateway: mutual TLS, where the server name is the id of the tunnel that is wanted.

Whoever has no certificate of the hop's authority gets no byte through; a name that is no tunnel here is refused in
the handshake.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast
from weakref import WeakKeyDictionary

from edge.link import authority
from edge.link.authority import Authority
from edge.link.renewal import PERIOD

CLIENT = "edge"  # the name of Envoy's certificate


class Target(Protocol):
    """A tunnel that takes connections."""

    def connected(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Return the protocol of a new connection."""


Find = Callable[[str], Target | None]


async def serve(
    hop: Authority, gateway: str, host: str, port: int, find: Find, *, period: float = PERIOD
) -> asyncio.Server:
    """Accept connections for the tunnels that `find` knows, with a fresh certificate after each period of seconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=hop.pem)
    wanted: WeakKeyDictionary[object, Target] = WeakKeyDictionary()

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
    return await loop.create_server(lambda: _Connection(wanted), host, port, ssl=context, backlog=1024)


class _Connection(asyncio.Protocol):
    """A connection whose handshake is over: it hands itself to its tunnel's own protocol."""

    def __init__(self, wanted: "WeakKeyDictionary[object, Target]") -> None:
        self._wanted = wanted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        target = self._wanted.get(transport.get_extra_info("ssl_object"))
        if target is None:  # no server name at all, which the callback is not asked about
            transport.abort()
            return
        protocol = target.connected(transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
