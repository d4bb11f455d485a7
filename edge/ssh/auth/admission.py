"""Admits or refuses new connections of SSH clients, by their addresses.

A refused client receives a sentence, and is disconnected before the SSH protocol begins.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

_BATCH = 16  # maximum connections that one iteration of the event loop accepts: each takes a millisecond
_BACKLOG = 1024  # maximum connections that wait in the kernel to be accepted


async def listen(protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Listen for connections. Each iteration of the event loop accepts a limited number of them.

    Several gateways of a host can listen at the same port.
    """
    server = await asyncio.get_running_loop().create_server(protocol, host, port, backlog=_BATCH, reuse_port=True)
    for listener in server.sockets:
        with socket.fromfd(listener.fileno(), listener.family, listener.type) as copy:
            # asyncio uses `backlog` for its batches and also for the kernel's limit: raise the kernel's limit again
            copy.listen(_BACKLOG)

    return server


class Admission(asyncio.Protocol):
    """The asyncio protocol of a new connection until it is admitted.

    `explain_refusal` returns the sentence for a client with a refused address, or "" to admit the client. For an
    admitted client, `create_connection` creates the protocol of the SSH connection.
    """

    def __init__(
        self, explain_refusal: Callable[[str], str], create_connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self._explain_refusal, self._create_connection = explain_refusal, create_connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        if sentence := self._explain_refusal(str(transport.get_extra_info("peername", ("?",))[0])):
            transport.write(f"{sentence}\r\n".encode())  # RFC 4253, 4.2 allows lines before the version string
            transport.close()
            return
        connection = self._create_connection()
        transport.set_protocol(connection)
        connection.connection_made(transport)
