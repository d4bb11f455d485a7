"""The memory that the system keeps for a connection: bounded, since all connections of a machine share one amount.

When it has run out, the system drops packets of every connection, and each waits for the other side to send them again.
By itself the system keeps up to 32 MiB of what is not read yet.
"""

import asyncio
import socket
from collections.abc import Mapping


def options(most: int) -> Mapping[tuple[int, int], int]:
    """Return the options, by level and name, with which a socket keeps `most` bytes each way.

    They bound what was received and not read, and what was written and not sent. What is under way has no bound: a far
    client is sent to as fast as ever. A connection has the options of the socket that accepted it.
    """
    return {(socket.SOL_SOCKET, socket.SO_RCVBUF): most, (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT): most}


def bound(server: asyncio.Server, most: int) -> None:
    """Have the connections that a server accepts keep no more."""
    for listening in server.sockets:
        for (level, name), value in options(most).items():
            listening.setsockopt(level, name, value)
