"""New connections at a port of two processes: to which of them the system gives them."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import pytest

from edge.process.envoy_process import steering

CONNECTIONS = 64
LISTENS = """
import socket, sys
listening = []
for _ in range(2):
    it = socket.socket()
    it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    it.bind(("127.0.0.1", listening[0].getsockname()[1] if listening else 0))
    it.listen(100)
    listening.append(it)
print(listening[0].getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def former() -> "Iterator[tuple[subprocess.Popen[str], int]]":
    """Run a process that listens twice at a port, as Envoy with two workers does."""
    command = [sys.executable, "-c", LISTENS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process, int(process.stdout.readline())


def listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(100)
    listening.settimeout(5)
    return listening


def count_accepted(listening: Sequence[socket.socket], port: int) -> int:
    """Connect often. Return how many connections these sockets get."""
    clients = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(CONNECTIONS)]
    connections = [connection for server in listening for connection in _accept_all(server)]
    for connection in (*clients, *connections):
        connection.close()
    return len(connections)


def _accept_all(listening: socket.socket) -> list[socket.socket]:
    listening.setblocking(False)
    connections = []
    with suppress(BlockingIOError):
        while True:
            connections.append(listening.accept()[0])
    return connections


def test_connections_go_to_the_new_process_also_when_the_former_one_has_closed() -> None:
    with former() as (process, port), closing(listen(port)) as first, closing(listen(port)) as second:
        later = first, second
        assert 0 < count_accepted(later, port) < CONNECTIONS
        steering.steer_away(process.pid)
        assert count_accepted(later, port) == CONNECTIONS
        process.communicate("")
        assert count_accepted(later, port) == CONNECTIONS


def test_a_port_of_one_process_stays_as_it_is() -> None:
    with former() as (process, port):
        steering.steer_away(process.pid)
        socket.create_connection(("127.0.0.1", port), 5).close()
        process.communicate("")


def test_a_process_that_has_ended_is_an_error_of_the_system() -> None:
    with former() as (process, _):
        process.communicate("")
    with pytest.raises(OSError, match=r"."):
        steering.steer_away(process.pid)
