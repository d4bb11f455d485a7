"""Admission of new connections: an address that may not sign in is told why and sent away before SSH begins."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

_AT_ONCE = 16  # connections are accepted before others have their turn: making one takes a millisecond
_BACKLOG = 1024  # may wait for that


async def listen(protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Return a server that accepts a few connections at a time, however many come at once."""
    server = await asyncio.get_running_loop().create_server(protocol, host, port, backlog=_AT_ONCE)
    for it in server.sockets:
        with socket.fromfd(it.fileno(), it.family, it.type) as same:
            same.listen(_BACKLOG)  # asyncio has one number for both
    return server


class Admission(asyncio.Protocol):
    """`refusal` returns what an address is told before it is sent away, "" where its connection is made."""

    def __init__(self, refusal: Callable[[str], str], connection: Callable[[], asyncio.Protocol]) -> None:
        self._refusal, self._connection = refusal, connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        if sentence := self._refusal(str(transport.get_extra_info("peername", ("?",))[0])):
            transport.write(f"{sentence}\r\n".encode())  # RFC 4253, 4.2: lines before the version are for people
            transport.close()
            return
        connection = self._connection()
        transport.set_protocol(connection)
        connection.connection_made(transport)
