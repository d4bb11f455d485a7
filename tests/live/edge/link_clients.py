"""Connections over the link as Envoy opens them, and servers behind the tunnels they lead to."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from edge.link import authority, server
from tests.live.edge.running import Edge

T = TypeVar("T")
Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(serve: Serve) -> Iterator[int]:
    """Serve each connection to a port of this machine in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=_serve_connection, args=(serve, connection), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _serve_connection(serve: Serve, connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(10)
        serve(connection)


class Link:
    """A connection over the link whose directions end separately."""

    def __init__(self, edge: Edge, tunnel: str, first: bytes = b"", *, piece: int = 1 << 16) -> None:
        gateway = edge.store.up[edge.gateway.id]
        self._raw = socket.create_connection(("127.0.0.1", gateway.port), 10)
        for start in range(0, len(first), piece):
            self._raw.sendall(first[start : start + piece])
        context = ssl.create_default_context(cadata=edge.store.authority.pem)
        context.check_hostname = False
        authority.load_into(context, edge.store.authority.issue(server.CLIENT))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=tunnel.lower())
        self._until_done(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        self._until_done(lambda: self._tls.write(data))

    def end(self) -> None:
        """End what is sent."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()

    def read(self) -> bytes:
        """Return all bytes until the other side ends its direction."""
        content = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while chunk := self._until_done(lambda: self._tls.read(1 << 16)):
                content += chunk
        return content

    def close(self) -> None:
        self._raw.close()

    def _flush(self) -> None:
        self._raw.sendall(self._outgoing.read())

    def _until_done(self, do: Callable[[], T]) -> T:
        while True:
            try:
                return do()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._raw.recv(1 << 16)
                assert data, "the gateway has closed"
                self._incoming.write(data)
            finally:
                self._flush()


def count_bytes(connection: socket.socket) -> None:
    """Answer how many bytes came when nothing more does."""
    total = 0
    while data := connection.recv(1 << 16):
        total += len(data)
    connection.sendall(f"{total} bytes".encode())


def echoing(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)
