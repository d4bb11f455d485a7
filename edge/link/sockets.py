"""Socket options for buffers and keepalive, and Unix sockets in a folder.

All TCP connections of a machine share a limited amount of memory. When this memory is exhausted, the kernel drops
packets of every connection, which slows down all of them. By default the kernel buffers up to 32 MiB of unread data per
connection.
"""

import os
import select
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from edge.process import files

_MAX_ADDRESS = 107  # the most bytes of a socket's path that the kernel permits

_KEEPALIVE = {  # the kernel probes a connection after 60 s of silence, and ends it after another 60 s without an answer
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 20,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 3,
}


class Listening(Protocol):
    """A listening socket, or asyncio's wrapper of one."""

    def setsockopt(self, level: int, name: int, value: int, /) -> None:
        """Set a socket option."""


class Connected(Protocol):
    """The socket of a connection, or asyncio's wrapper of it."""

    def fileno(self) -> int:
        """Return the file descriptor. It is negative if the socket is closed."""


def options(max_bytes: int) -> Mapping[tuple[int, int], int]:
    """Return socket options, by level and name. They limit a socket's buffers, and enable keepalive.

    Each buffer (one per direction) has at most `max_bytes` bytes. The limit applies to received data that is not read
    yet, and to written data that is not sent yet. It does not apply to data in flight, so distant clients stay fast. A
    connection inherits the options of its listening socket.
    """
    buffers = {
        (socket.SOL_SOCKET, socket.SO_RCVBUF): max_bytes,
        (socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT): max_bytes,
    }
    return {**buffers, **_KEEPALIVE}


def set_options(listening: Iterable[Listening], max_bytes: int) -> None:
    """Set the options on listening sockets. Accepted connections inherit them."""
    for listener in listening:
        for (level, name), value in options(max_bytes).items():
            listener.setsockopt(level, name, value)


def is_closed_by_peer(connection: Connected) -> bool:
    """Return whether the peer has closed both directions. Return False if this side is closed."""
    number = connection.fileno()
    if number < 0:
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def address(path: Path, folder: Path) -> str:
    """Return the path of a Unix socket for a process that runs in a folder.

    The path is relative if the socket is in this folder. Return "" if the socket is missing or the path is too long.
    """
    name = path.name if path.parent == folder else str(path)
    try:
        is_there = path.is_socket()
    except OSError:  # for example if this user may not read the folder
        return ""
    return name if is_there and len(os.fsencode(name)) <= _MAX_ADDRESS else ""


def remove_stale(paths: Iterable[Path]) -> None:
    """Remove the files of sockets to which no process listens. Killed processes leave them."""
    for path in paths:
        with files.shorten_socket_path(path) as short, socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(short))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:  # for example if the listener's queue is full
                continue
