"""Compressed responses of a real edge, compared with a model of which ones the documentation promises."""

import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.compression import CompressionModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from tests.edge import case_counts
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
ACCOUNT = "acct_A"
_TEXTS = ("text/html", "text/css; charset=utf-8", "application/json", "TEXT/PLAIN", "image/svg+xml")
_UNCOMPRESSED_TYPES = (
    "image/png",
    "text/event-stream",
    "text/event-stream; charset=utf-8",
    "application/grpc",
    "font/woff2",
)
_ACCEPTING = ("gzip", "gzip, deflate, br", "br;q=1.0, gzip;q=0.8, *;q=0.1", "*", "deflate, gzip;q=0.001")
_REFUSING = ("", "identity", "br", "gzip;q=0", "deflate", "*;q=0", "gzip;q=0, *", "GZIP")
_OPEN = ("", "no-cache", "max-age=60", "private, x-no-transform-x")
_EMPTY = 'x-answer: {"status": 200, "headers": {"content-length": "0"}, "size": 0}'
_CLOSED = ("no-transform", "max-age=60, no-transform", "NO-TRANSFORM,public", "public ,  no-transform")


@dataclass(frozen=True)
class Exchange:
    """A request, and the response of the upstream. A `length` of None is a body in chunks."""

    path: str
    method: str
    accept: str
    status: int
    type: str
    cache_control: str
    encoding: str
    etag: str
    size: int
    is_chunked: bool

    @property
    def is_compressed(self) -> bool:
        """Return whether the documentation promises a compressed response."""
        return (
            self.path == "/on"
            and self.method == "GET"
            and self.accept in _ACCEPTING
            and self.status != 206
            and self.type in (*_TEXTS, "")
            and self.cache_control in _OPEN
            and not self.encoding
            and (self.is_chunked or self.size >= 860)
        )


def draw(chance: Random) -> Exchange:
    return Exchange(
        path=chance.choice(("/on", "/on", "/on", "/on", "/off", "/plain")),
        method=chance.choice(("GET", "GET", "GET", "HEAD")),
        accept=chance.choice((*_ACCEPTING, *_ACCEPTING, *_REFUSING)),
        status=chance.choice((200, 200, 200, 404, 500, 206)),
        type=chance.choice((*_TEXTS, *_TEXTS, *_UNCOMPRESSED_TYPES, "")),
        cache_control=chance.choice((*_OPEN, *_OPEN, *_CLOSED)),
        encoding=chance.choice(("", "", "", "gzip", "br", "identity")),
        etag=chance.choice(("", 'W/"weak"', '"strong"')),
        size=chance.choice((1, 859, 860, 5000, 70_000)),
        is_chunked=chance.random() < 0.3,
    )


class _Origin(BaseHTTPRequestHandler):
    """A server whose responses are in the requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        answer = json.loads(self.headers["x-answer"])
        self.send_response(answer["status"])
        for name, value in answer["headers"].items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            body = b"a" * answer["size"]
            is_chunked = "transfer-encoding" in answer["headers"]
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(edge: Edge) -> Iterator[Edge]:
    """Serve a route that compresses, one whose module is disabled, and one without it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=compressed:80:localhost:{server.server_address[1]}")
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "compressed"}))
    edge.store.keep(group)
    upstream = BackendModule(backend_id=group.id)
    routes = tuple(
        ServedRoute(ids.new("edghtsrt"), "path_prefix", path, enabled(upstream, compression=module))
        for path, module in (("/on", CompressionModule()), ("/", None))
    )
    edge.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, ("compressed.tunnels.localhost:443",), routes=routes))
    until(lambda: edge.status("compressed", "-H", _EMPTY) == "200")
    yield edge
    server.shutdown()


def ask(edge: Edge, exchange: Exchange) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body that a visitor receives."""
    length = {"transfer-encoding": "chunked"} if exchange.is_chunked else {"content-length": str(exchange.size)}
    headers = {
        "content-type": exchange.type,
        "cache-control": exchange.cache_control,
        "content-encoding": exchange.encoding,
        "etag": exchange.etag,
        **length,
    }
    answer = {"status": exchange.status, "headers": {k: v for k, v in headers.items() if v}, "size": exchange.size}
    host = f"compressed.tunnels.localhost:{edge.settings.edge_port}"
    accept = f"accept-encoding: {exchange.accept}\r\n" if exchange.accept else ""
    head = f"{exchange.method} {exchange.path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{accept}"
    with edge.connect("compressed") as connection:
        connection.sendall(f"{head}x-answer: {json.dumps(answer)}\r\n\r\n".encode())
        response = HTTPResponse(connection, method=exchange.method)
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def _unzip(body: bytes) -> bytes:
    try:
        return gzip.decompress(body)
    except gzip.BadGzipFile:
        return b"not gzip"


def describe_difference(edge: Edge, exchange: Exchange) -> str:
    """Return how a response differs from the model, or ""."""
    status, headers, body = ask(edge, exchange)
    plain = b"a" * exchange.size if exchange.method == "GET" else b""
    if exchange.is_compressed:
        etag = exchange.etag if exchange.etag.startswith("W/") else ""  # a strong one names other bytes
        expected = (exchange.status, "gzip", etag, plain)
        response = (status, headers.get("content-encoding", ""), headers.get("etag", ""), _unzip(body))
        is_right = response == expected and "content-length" not in headers and "Accept-Encoding" in headers["vary"]
    else:
        expected = (exchange.status, exchange.encoding, exchange.etag, plain)
        response = (status, headers.get("content-encoding", ""), headers.get("etag", ""), body)
        is_right = response == expected and headers.get("content-length", "") == (
            "" if exchange.is_chunked else str(exchange.size)
        )
    return "" if is_right else f"{exchange}: {status} {headers} {body[:20]!r}"


def find_differences(edge: Edge, count: int, seed: int) -> list[str]:
    chance = Random(seed)
    return [difference for _ in range(count) if (difference := describe_difference(edge, draw(chance)))]


def test_exactly_the_promised_responses_are_compressed(served: Edge) -> None:
    assert find_differences(served, case_counts.at_least(120), seed=1) == []


def test_events_and_websockets_pass_at_once(served: Edge, origin: int) -> None:
    upstream = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "streams"}))
    served.ssh(served.key(ACCOUNT), "-R", f"app=streams:80:localhost:{origin}")
    served.store.keep(upstream)
    modules = enabled(BackendModule(backend_id=upstream.id), compression=CompressionModule())
    route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", modules)
    served.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, ("streams.tunnels.localhost:443",), routes=(route,)))
    until(lambda: served.status("streams") == "200")
    with served.connect("streams") as connection:
        host = f"streams.tunnels.localhost:{served.settings.edge_port}"
        connection.sendall(f"GET /events HTTP/1.1\r\nhost: {host}\r\naccept-encoding: gzip\r\n\r\n".encode())
        answer = HTTPResponse(connection)
        answer.begin()
        for number in range(3):
            assert [answer.readline(), answer.readline()] == [f"data: {number}\n".encode(), b"\n"]
            assert served.status("streams", path="/come") == "200"
    key = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: x")
    header_arguments = [part for header in (*key, "accept-encoding: gzip") for part in ("-H", header)]
    assert (
        "content-encoding" not in served.curl("streams", "--http1.1", "-i", *header_arguments, path="/upgraded").lower()
    )
