"""An issuer on loopback. It answers with any bytes and counts its connections."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.federation import signing

Answer = Callable[[socket.socket], None]


@dataclass
class IssuerServer:
    """The server. `documents` and `answers` are by path; `paths` are those that were requested."""

    port: int
    documents: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]

    def publish(self, *keys: dict[str, Any]) -> None:
        """Serve the discovery document and the keys."""
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.documents = {"/.well-known/openid-configuration": discovery, "/keys": {"keys": keys}}


@contextmanager
def serve_issuer(tls: ssl.SSLContext | None = None) -> Iterator[IssuerServer]:
    """Serve an issuer whose keys are `signing.rsa_jwk()`."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        server = IssuerServer(listener.getsockname()[1])
        server.publish(signing.rsa_jwk())
        threading.Thread(target=_accept, args=(listener, server, tls), daemon=True).start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)


def raw(data: bytes) -> Answer:
    """Return an answer of some bytes."""
    return lambda connection: connection.sendall(data)


def response(status: str, body: bytes = b"", *headers: str) -> Answer:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return raw("\r\n".join(lines).encode() + body)


def be_silent(connection: socket.socket) -> None:
    """Answer nothing until the client closes the connection."""
    connection.recv(1)


def _accept(listener: socket.socket, server: IssuerServer, tls: ssl.SSLContext | None) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        server.connections += 1
        if tls:
            try:
                connection = tls.wrap_socket(connection, server_side=True)
            except OSError:
                continue
        threading.Thread(target=_serve, args=(connection, server), daemon=True).start()


def _serve(connection: socket.socket, server: IssuerServer) -> None:
    with connection, suppress(OSError):
        request = b""
        while b"\r\n\r\n" not in request:
            data = connection.recv(65536)
            if not data:
                return
            request += data
        server.requests.append(request.decode())
        path = server.paths[-1]
        if path in server.answers:
            server.answers[path](connection)
        elif path in server.documents:
            response("200 OK", json.dumps(server.documents[path]).encode())(connection)
        else:
            response("404 Not Found")(connection)
