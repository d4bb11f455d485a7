"""The options of sockets: how much the system keeps for a connection, and when it asks whether the other side is there.

All connections of a machine share one amount of memory. When it has run out, the system drops packets of every one, and
each waits for the other side to send them again. By itself the system keeps up to 32 MiB of what is not read yet.
"""

import os
import select
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from edge.process import files

_MAX_ADDRESS = 107  # bytes of a path

_ALIVE = {  # after 60 s of silence it asks, and ends a connection that has not answered for as long
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 20,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 3,
}


class Listening(Protocol):
    """A socket, or what asyncio shows of one."""

    def setsockopt(self, level: int, name: int, value: int, /) -> None:
        """Set an option of it."""


class Connected(Protocol):
    """The socket of a connection, or what asyncio shows of it."""

    def fileno(self) -> int:
        """Return its number."""


def options(most: int) -> Mapping[tuple[int, int], int]:
    """Return the options, by level and name, with which a socket keeps `most` bytes each way.

    They bound what was received and not read, and what was written and not sent. What is under way has no bound: a far
    client is sent to as fast as ever. A connection has the options of the socket that accepted it.
    """
    kept = {(socket.SOL_SOCKET, socket.SO_RCVBUF): most, (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT): most}
    return {**kept, **_ALIVE}


def bound(listening: Iterable[Listening], most: int) -> None:
    """Give the connections that sockets accept these options."""
    for each in listening:
        for (level, name), value in options(most).items():
            each.setsockopt(level, name, value)


def has_gone(connection: Connected) -> bool:
    """Tell whether the other side has closed a connection both ways; False for one that is closed on this side."""
    number = connection.fileno()
    if number < 0:
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def address(path: Path, folder: Path) -> str:
    """Return the path of a socket for a process that runs in a folder; "" where none is found, or that is too long."""
    found = path.name if path.parent == folder else str(path)
    try:
        is_there = path.is_socket()
    except OSError:  # as where this user may not look into the folder
        return ""
    return found if is_there and len(os.fsencode(found)) <= _MAX_ADDRESS else ""


def remove_left(left: Iterable[Path]) -> None:
    """Remove the sockets at which nobody listens, as those of a process that was killed."""
    for path in left:
        with files.shorten_socket_path(path) as short, socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(short))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:  # as of one whose queue is full
                continue
