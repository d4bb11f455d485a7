"""A server that greets its clients before they send a byte, and clients from the addresses of this machine."""

import contextlib
import socket
import threading


class Server:
    """A server that greets its clients, and sends back what they send."""

    def __init__(self) -> None:
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"welcome")
            while data := connection.recv(1000):
                connection.sendall(data)


def is_greeted(port: int, source: str, first: bytes = b"") -> bool:
    """Return whether a client is greeted, or closed without a byte."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5, (source, 0)) as connection:
            connection.sendall(first)
            read = connection.recv(100)
    except OSError:
        return False
    assert read in (b"", b"welcome")
    return bool(read)


def echoes(connection: socket.socket) -> bool:
    connection.sendall(b"still")
    return connection.recv(5, socket.MSG_WAITALL) == b"still"


def connect(port: int, source: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 5, (source, 0))
    assert connection.recv(7, socket.MSG_WAITALL) == b"welcome"
    return connection
