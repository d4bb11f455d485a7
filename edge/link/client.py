"""Connects to a gateway as Envoy does. A gateway that drains uses this file to pass connections to other gateways."""

import asyncio
import ssl
from typing import cast

from edge.link import authority
from edge.link.authority import Authority
from edge.link.held_connections import Side
from edge.link.proxy_protocol import Header
from edge.link.server import CLIENT, HANDSHAKE_TIMEOUT
from edge.link.tls import TlsTransport


def build_context(link_authority: Authority) -> ssl.SSLContext:
    """Return a TLS context that presents a client certificate like Envoy's.

    The context does not check the gateway's name: `connect` does that.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=link_authority.pem)
    authority.load_into(context, link_authority.issue(CLIENT))
    return context


async def connect(
    context: ssl.SSLContext, gateway: str, address: tuple[str, int], tunnel: str, visitor: Header | None
) -> Side:
    """Connect to a tunnel of a gateway, and send the PROXY protocol header of the visitor. Raises OSError."""
    opening = _Opening(context, gateway, tunnel, visitor)
    async with asyncio.timeout(HANDSHAKE_TIMEOUT):  # this call raises TimeoutError, which is an OSError
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: opening, *address)
        try:
            return await opening.result
        except BaseException:
            transport.abort()
            raise


class _Opening(asyncio.Protocol):
    """Waits for the end of a connection's TLS handshake."""

    def __init__(self, context: ssl.SSLContext, gateway: str, tunnel: str, visitor: Header | None) -> None:
        self._context, self._gateway, self._tunnel, self._visitor = context, gateway, tunnel, visitor
        self.result: asyncio.Future[Side] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast(asyncio.Transport, transport)
        if self._visitor:
            raw.write(self._visitor.forwarded())
        secured = TlsTransport(self._context, self, server_name=self._tunnel)
        raw.set_protocol(secured)
        secured.connection_made(raw)
        secured.begin()

    def handshake_over(self, secured: TlsTransport) -> asyncio.Protocol | None:
        """Return the protocol for the connection to the tunnel, or None to end the connection.

        The connection ends if the server's certificate is not for the requested gateway.
        """
        names = (secured.tls.getpeercert() or {}).get("subjectAltName", ())
        if ("DNS", self._gateway.lower()) not in names:
            self.on_failed()
            return None
        side = Side()
        if not self.result.done():
            self.result.set_result(side)
        return side

    def on_failed(self) -> None:
        """Handle a connection that has ended before its handshake was complete."""
        if not self.result.done():
            self.result.set_exception(
                ConnectionRefusedError(f"the gateway {self._gateway} does not serve the tunnel {self._tunnel}")
            )
