"""Connections of SSH clients through a proxy, which sends each client's address in a PROXY protocol header."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from edge.link import proxy_protocol
from edge.link.proxy_protocol import Address, Header
from edge.networks import Networks
from edge.process import log

_MAX_HEADER = 536  # maximum bytes of a header. Version 2 of the PROXY protocol requires that receivers accept 536 bytes
_TIMEOUT = 5.0  # seconds until a connection without a complete header is closed


class Proxied(asyncio.Protocol):
    """The asyncio protocol of a new connection until its PROXY header is complete.

    `proxies` are the networks from which proxies may connect. `admit` returns the protocol that handles the connection
    after the header. That protocol sees the client's address, not the proxy's, as its peer.
    """

    def __init__(self, proxies: Networks, admit: Callable[[], asyncio.Protocol], *, timeout: float = _TIMEOUT) -> None:
        self._proxies, self._admit, self._timeout = proxies, admit, timeout
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer = str(transport.get_extra_info("peername", ("?",))[0])
        self._timer = asyncio.get_running_loop().call_later(
            self._timeout, self._refuse, "no PROXY protocol header arrived in time"
        )
        if not self._proxies.contain(self._peer):
            self._refuse("its address is not in SSH_PROXY_PROTOCOL_FROM")

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._received += data
        try:
            parsed = proxy_protocol.read_any(self._received)
        except ValueError as error:
            self._refuse(f"its header {error}")
            return
        length = parsed[1] if parsed else len(self._received)
        if length > _MAX_HEADER:
            self._refuse(f"its PROXY protocol header has more than {_MAX_HEADER} bytes")
        elif parsed:
            self._on_header(parsed[0], self._received[length:])

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()

    def _on_header(self, header: Header | None, early: bytes) -> None:
        if header is None:
            self._refuse("it does not begin with a PROXY protocol header")
        elif header.source is None:  # a connection of the proxy itself, such as a health check
            self._close()
        else:
            self._timer.cancel()
            protocol = self._admit()
            self._transport.set_protocol(protocol)
            protocol.connection_made(cast(asyncio.Transport, _ClientTransport(self._transport, header.source)))
            if early and not self._transport.is_closing():
                cast(asyncio.Protocol, self._transport.get_protocol()).data_received(early)

    def _refuse(self, reason: str) -> None:
        log.event("proxy_refused", address=self._peer, reason=reason)
        self._close()

    def _close(self) -> None:
        self._timer.cancel()
        self._transport.abort()


class _ClientTransport:
    """A transport that reports the client's address as its peer, instead of the proxy's address."""

    def __init__(self, transport: asyncio.Transport, client: Address) -> None:
        self._transport, self._client = transport, client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a property of the transport. For "peername", return the client's address."""
        return self._client if name == "peername" else self._transport.get_extra_info(name, default)
