"""The hop from Envoy to a gateway: mutual TLS, where the server name is the id of the tunnel that is wanted.

Whoever has no certificate of the hop's authority gets no byte through; a name that is no tunnel here is refused in
the handshake.
"""

import asyncio
import random
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Protocol, cast
from weakref import WeakKeyDictionary

from edge.link import authority
from edge.link.authority import Authority
from edge.link.renewal import PERIOD

CLIENT = "edge"  # the name of Envoy's certificate
MOST_HANDSHAKES, HANDSHAKE_TIMEOUT = 256, 5.0  # at once; in seconds
_READ_AT_ONCE = 64 << 10  # bytes, which asyncio keeps for each connection of this process: by itself 256 KiB
_MOST_UNSENT = 64 << 10  # bytes for Envoy, from which on its channel waits


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
    sslproto.SSLProtocol.max_size = _READ_AT_ONCE
    begun: set[_Arrived] = set()
    return await loop.create_server(lambda: _Arrived(context, wanted, begun), host, port, backlog=1024)


class _Arrived(asyncio.Protocol):
    """A connection before its handshake. Of too many a random one goes, so that those who only wait keep nobody out."""

    def __init__(
        self, context: ssl.SSLContext, wanted: "WeakKeyDictionary[object, Target]", begun: set["_Arrived"]
    ) -> None:
        self._context, self._wanted, self._begun = context, wanted, begun
        self._early = b""  # comes with the end of the handshake, of which the task hears later

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._begun.add(self)
        if len(self._begun) > MOST_HANDSHAKES:
            random.choice(list(self._begun)).drop()
        self._task = asyncio.create_task(self._secure())

    def data_received(self, data: bytes) -> None:
        self._early += data

    def drop(self) -> None:
        """End at once."""
        self._begun.discard(self)
        self._transport.abort()

    async def _secure(self) -> None:
        """Hand the connection to its tunnel's own protocol once the handshake is over."""
        start = asyncio.get_running_loop().start_tls
        try:
            made = await start(
                self._transport, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_TIMEOUT
            )
        except OSError:
            self._transport.abort()
            return
        finally:
            self._begun.discard(self)
        target = self._wanted.get(made.get_extra_info("ssl_object")) if made else None
        if (
            made is None or made.is_closing() or target is None
        ):  # no server name at all, which the callback is not asked about
            self._transport.abort()
            return
        made.set_write_buffer_limits(high=_MOST_UNSENT)
        protocol = target.connected(made)
        made.set_protocol(protocol)
        protocol.connection_made(made)
        if self._early:
            protocol.data_received(self._early)
