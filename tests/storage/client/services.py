"""A server with prepared answers in the place of an AWS service, and clients of it."""

import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from botocore.config import Config
from botocore.session import get_session

from chalicelib.storage.client import transport

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
WHOLE = HEAD + b'Content-Length: 17\r\n\r\n{"TableNames":[]}'
LAST = HEAD + b'Connection: close\r\nContent-Length: 17\r\n\r\n{"TableNames":[]}'
CHUNKED = HEAD + b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"Table\r\na\r\nNames":[]}\r\n0\r\n\r\n'
BROKEN_OFF = HEAD + b'Content-Length: 17\r\n\r\n{"Table'
NO_HTTP = b"SSH-2.0-OpenSSH_9.9\r\n\r\n"
SILENCE = b""


@dataclass
class Service:
    """A server that gives prepared answers, the last one again and again; it ends a connection after `ends` of them.

    It answers nobody before so many as `at_once` have asked.
    """

    answers: list[bytes]
    ends: int = 1000
    at_once: int = 1
    tls: ssl.SSLContext | None = None
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    complete: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Refuse new connections."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(5)
            self.answer(self.tls.wrap_socket(connection, server_side=True) if self.tls else connection)
        self.ended.release()

    def choose(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            for _ in range(self.ends):
                head = b"".join(takewhile(lambda line: line != b"\r\n", iter(stream.readline, b"")))
                if not head:
                    return
                body = stream.read(int(head.lower().partition(b"content-length: ")[2].split()[0]))
                self.requests.append(head + body)
                if len(self.requests) >= self.at_once:
                    self.complete.set()
                self.complete.wait(5)
                answer = self.choose(head + body)
                connection.sendall(answer)
                if answer in (BROKEN_OFF, NO_HTTP):
                    return


def client(address: str, attempts: int = 2, pool_size: int = 10, service: str = "dynamodb") -> Any:
    """Return a client of botocore that sends by the transport of the service."""
    session = get_session()
    session.set_credentials("one", "secret")
    transport.install(session)
    retries = {"mode": "standard", "total_max_attempts": attempts}
    patience = {"connect_timeout": 1, "read_timeout": 1}
    options = {"region_name": "us-east-1", "parameter_validation": False}
    config = Config(retries=retries, max_pool_connections=pool_size, **patience, **options)
    return session.create_client(service, endpoint_url=address, config=config)
