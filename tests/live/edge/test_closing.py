"""Answers on connections that close arrive whole, with the operator's certificate and with an uploaded one."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until, upgrade

pytestmark = needs_envoy

TRIES = 100
BODY = b"x" * 40_000 + b"the end"
FRAME = bytes([0x82, 126]) + len(BODY).to_bytes(2, "big") + BODY
GOODBYE = b"\x88\x02\x03\xe8"  # a WebSocket's own close, status 1000
WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bm9uc2Vuc2U=\r\n"
)
REQUESTS = {
    "HTTP/1.0": ("GET /whole HTTP/1.0\r\nHost: {host}\r\n\r\n", 200, BODY),
    "HTTP/1.1": ("GET /whole HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", 200, BODY),
    "a 404 of the upstream": ("GET /missing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", 404, BODY),
    "an upload that is refused unread": (
        "POST /refused HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n",
        413,
        BODY,
    ),
    "a 400 of the edge": ("GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: many\r\n\r\n", 400, b"Bad Request"),
    "a WebSocket that the upstream ends": (
        "GET /ws HTTP/1.1\r\nHost: {host}\r\n" + WEBSOCKET + "\r\n",
        101,
        FRAME + GOODBYE,
    ),
}


class Closing(BaseHTTPRequestHandler):
    """Answers once, without a length, and closes."""

    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/ws":
            self._websocket()
        else:
            self._answer(404 if self.path == "/missing" else 200)

    def do_POST(self) -> None:
        self._answer(413)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(BODY)

    def _websocket(self) -> None:
        self.wfile.write(upgrade(self.headers["sec-websocket-key"]) + FRAME + GOODBYE)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def closing() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Closing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.fixture(scope="module", autouse=True)
def tunnels(edge: Edge) -> Iterator[None]:
    """Open two tunnels: one is served with the operator's certificate, the other with an uploaded one."""
    edge.upload("cert_uploaded", "acct_A", "uploaded.tunnels.localhost")
    with closing() as port:
        forwards = [part for name in ("operators", "uploaded") for part in ("-R", f"{name}:80:127.0.0.1:{port}")]
        client = edge.ssh(edge.key("acct_A"), *forwards)
        edge.clients.remove(client)  # it stays from test to test
        until(lambda: edge.status("operators") == edge.status("uploaded", "--insecure", "--http2") == "200")
        yield
        client.kill()


def outcome(edge: Edge, context: ssl.SSLContext, name: str, kind: str) -> str:
    """Return "whole", or what is wrong with the answer."""
    request, status, body = REQUESTS[kind]
    host = f"{name}.tunnels.localhost"
    try:
        with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = context.wrap_socket(raw, server_hostname=host, suppress_ragged_eofs=False)
            connection.sendall(request.format(host=host).encode())
            answer = HTTPResponse(connection)
            answer.begin()
            read = answer.fp.read(len(body)) if status == 101 else answer.read()
            connection.close()
    except (OSError, HTTPException) as error:
        return repr(error)[:80]
    return "whole" if (answer.status, read) == (status, body) else f"{answer.status} and {len(read)} bytes"


def outcome_over_http2(edge: Edge, context: ssl.SSLContext, name: str) -> str:
    """Return "whole", or what is wrong with the answer on an HTTP/2 connection of its own."""
    host = f"{name}.tunnels.localhost"
    try:
        with httpx.Client(http1=False, http2=True, verify=context, trust_env=False) as client:
            answer = client.get(
                f"https://127.0.0.1:{edge.settings.edge_port}/whole",
                headers={"host": host},
                extensions={"sni_hostname": host},
            )
    except httpx.HTTPError as error:
        return type(error).__name__
    return "whole" if answer.content == BODY else f"{answer.status_code} and {len(answer.content)} bytes"


@pytest.mark.parametrize("certificate", ["operators", "uploaded"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_an_answer_is_whole_before_its_connection_closes(
    edge: Edge, context: ssl.SSLContext, kind: str, certificate: str
) -> None:
    tries = TRIES if kind.startswith("HTTP") else 50
    with ThreadPoolExecutor(5) as threads:  # Envoy waits half a second before it closes a refused upload
        outcomes = threads.map(lambda _: outcome(edge, context, certificate, kind), range(tries))
        assert Counter(outcomes) == {"whole": tries}


@pytest.mark.parametrize("certificate", ["operators", "uploaded"])
def test_an_answer_over_http2_is_whole(edge: Edge, context: ssl.SSLContext, certificate: str) -> None:
    assert Counter(outcome_over_http2(edge, context, certificate) for _ in range(TRIES)) == {"whole": TRIES}
