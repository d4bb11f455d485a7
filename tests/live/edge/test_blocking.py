"""Networks that the operator has blocked, at the public ports of an edge host."""

import contextlib
import re
import socket
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path

import grpc
import pytest

from chalicelib.model.edges.backends import TunnelGroup
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, listens, running, until
from tests.live.edge.test_grpc import Service
from tests.live.edge.test_https_edges import ACCOUNT, backend, https_edge, route
from tests.needs import need

_REQUEST = b"GET / HTTP/1.1\r\nhost: demo.tunnels.localhost\r\n\r\n"
_UPGRADE = (
    b"GET /echo HTTP/1.1\r\nhost: demo.tunnels.localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _connect_from(edge: Edge, source: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    raw = socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10, (source, 0))
    return context.wrap_socket(raw, server_hostname="demo.tunnels.localhost")


def _is_open(connection: socket.socket, expected: bytes = b"") -> bool:
    """Tell whether what comes within a moment, if anything must, holds the bytes expected; not of an ended one."""
    try:
        return expected in (came := connection.recv(4096)) and came != b""
    except TimeoutError:
        return not expected
    except OSError:
        return False


def _status(connection: ssl.SSLSocket) -> int:
    return _answer(connection)[0]


def _answer(connection: ssl.SSLSocket) -> tuple[int, bytes]:
    """Return status and body of what is answered to a request."""
    connection.sendall(_REQUEST)
    answer = HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read()


@needs_envoy
def test_a_blocked_network_is_refused_within_five_seconds_also_on_an_open_connection(
    tmp_path: Path, origin: int
) -> None:
    with running(tmp_path, with_envoy=True, abuse_contact="100% abuse@example.com") as edge:
        client = edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}")
        client.wait_for("Report abuse to 100% abuse@example.com")
        until(lambda: edge.status("demo") == "200")
        with _connect_from(edge, "127.0.0.2") as bad, _connect_from(edge, "127.0.0.1") as good:
            assert (_status(bad), _status(good)) == (200, 200)
            edge.store.block("127.0.0.2/32")
            until(lambda: _status(bad) == 403, within=5)
            assert _status(good) == 200
            assert _answer(bad)[1].endswith(b"denied\nReport abuse of this address to 100% abuse@example.com\n")
            edge.store.block()
            until(lambda: _status(bad) == 200, within=5)


@needs_envoy
def test_open_connections_of_a_blocked_network_end_within_five_seconds(edge: Edge, origin: int) -> None:
    def connect_and_ask(connection: socket.socket) -> socket.socket:
        connection.settimeout(0.05)
        connection.sendall(_UPGRADE)
        until(lambda: _is_open(connection, b" 101 "))
        return connection

    with contextlib.ExitStack() as stack:
        port = edge.settings.tcp_ports[0]
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}", "-R", f"{port}:127.0.0.1:{origin}")
        until(lambda: edge.status("demo") == "200" and listens(port))
        bad, good = ("127.0.0.2", 0), ("127.0.0.3", 0)
        raw = [socket.create_connection(("127.0.0.1", port), 10, source) for source in (bad, good)]
        connections = [
            connect_and_ask(connection)
            for connection in (*raw, _connect_from(edge, bad[0]), _connect_from(edge, good[0]))
        ]
        for connection in connections:
            stack.enter_context(connection)
        edge.store.block("127.0.0.2/32")
        until(lambda: not _is_open(connections[0]) and not _is_open(connections[2]), within=5)
        assert _is_open(connections[1])
        assert _is_open(connections[3])


@pytest.fixture
def service() -> Iterator[int]:
    """Run a server of gRPC; yield its port."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Service()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


@contextlib.contextmanager
def _stream_from(edge: Edge, source: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a curl whose stream of gRPC has been answered, and goes on."""
    trust = ["--cacert", str(edge.settings.directory / "authority.crt"), *edge.resolved("demo")]
    options = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-X", "POST", "-T", "."]
    command = ["curl", "-sSN", "--http2", "--interface", source, *trust, *options, edge.url("demo", "/test/both")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as curl:
        assert curl.stdin
        assert curl.stdout
        curl.stdin.write(b"\0\0\0\0\5hello")
        curl.stdin.flush()
        assert curl.stdout.read(10) == b"\0\0\0\0\5HELLO"
        yield curl
        curl.kill()


@needs_envoy
@pytest.mark.needs("curl")
@pytest.mark.parametrize("label", ["demo", "app=calls"])
def test_open_streams_of_grpc_from_a_blocked_network_end_within_five_seconds(
    tmp_path: Path, service: int, label: str
) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        if label != "demo":
            https_edge(edge, "demo", route(backend(edge, "bkdtg", TunnelGroup(labels={"app": "calls"}))))
        edge.ssh(edge.key(ACCOUNT), "-R", f"{label}:80:127.0.0.1:{service}").wait_for("is online")
        until(lambda: edge.status("demo") not in ("000", "404", "503"))
        with _stream_from(edge, "127.0.0.2") as bad, _stream_from(edge, "127.0.0.3") as good:
            edge.store.block("127.0.0.2/32")
            until(lambda: bad.poll() is not None, within=5)
            assert good.poll() is None


@contextlib.contextmanager
def _speaking_first() -> Iterator[tuple[int, list[socket.socket]]]:
    """Run a server that speaks first and echoes then; yield its port and the connections that it has accepted."""
    connections: list[socket.socket] = []

    def echo(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"BANNER")
            while data := connection.recv(4096):
                connection.sendall(data)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connections.append(listening.accept()[0])
                threading.Thread(target=echo, args=connections[-1:], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1], connections
        listening.shutdown(socket.SHUT_RDWR)


def _hello(host: str) -> bytes:
    """Return what a client of TLS says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=host)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes, fewer if the other side ends before."""
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while len(content) < size and (data := connection.recv(size - len(content))):
            content += data
    return content


@pytest.fixture(scope="module", params=[False, True])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge without and with trusted proxies."""
    need("the live edge")
    believed = "127.0.0.9/32" if request.param else ""
    with running(tmp_path_factory.mktemp("guarded"), with_envoy=True, believed=believed) as guarded_edge:
        yield guarded_edge


@needs_envoy
@pytest.mark.parametrize("kind", ["tcp", "tls"])
def test_a_new_connection_of_bytes_from_a_blocked_network_is_refused_before_the_upstream_knows_of_it(
    guarded: Edge, kind: str
) -> None:
    edge, settings = guarded, guarded.settings
    is_proxied = bool(settings.proxy_protocol_from)
    with _speaking_first() as (origin, connections):
        port = settings.tcp_ports[0] if kind == "tcp" else settings.edge_port
        hello = b"" if kind == "tcp" else _hello("demo.tunnels.localhost")
        client = edge.ssh(edge.key("acct_A"), "-R", f"{port if kind == 'tcp' else 'demo:443'}:127.0.0.1:{origin}")

        @contextlib.contextmanager
        def coming(source: str) -> Iterator[socket.socket]:
            via = "127.0.0.9" if is_proxied else source
            with socket.create_connection(("127.0.0.1", port), 10, (via, 0)) as connection:
                proxy_header = f"PROXY TCP4 {source} 127.0.0.1 5000 {port}\r\n".encode() if is_proxied else b""
                connection.sendall(proxy_header + hello)
                yield connection

        def banner(source: str) -> bytes:
            with coming(source) as connection:
                return _receive(connection, 6)

        until(lambda: listens(port) and banner("127.0.0.2") == b"BANNER")
        with coming("127.0.0.3") as good:
            assert _receive(good, 6 + len(hello)) == b"BANNER" + hello
            edge.store.block("127.0.0.2/32")
            # One may be ended by the gateway, which reads the list at another time, before Envoy refuses any.
            until(lambda: not any(banner("127.0.0.2") for _ in range(5)), within=5)
            before = len(connections)
            assert [banner("127.0.0.2") for _ in range(20)] == [b""] * 20
            assert len(connections) == before
            edge.store.block("127.0.0.2/32", "127.0.0.4/32")  # a change of the list ends no other connection
            until(lambda: banner("127.0.0.4") == b"", within=5)
            good.sendall(b"still here")
            assert _receive(good, 10) == b"still here"
            assert banner("127.0.0.3") == b"BANNER"
            edge.store.block()
            until(lambda: banner("127.0.0.2") == b"BANNER", within=5)
            good.sendall(b"still here")
            assert _receive(good, 10) == b"still here"
        client.kill()
        name = "port" if kind == "tcp" else "certificate"
        with urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics_port}/metrics", timeout=5) as metrics:
            pattern = rb'\nenvoy_listener_no_filter_chain_match_total{envoy_listener_address="%s"} [1-9]'
            assert re.search(pattern % name.encode(), metrics.read())
