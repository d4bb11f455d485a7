"""Visitors that mean harm, each an address of its own, and what others still have of the edge."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, running, until


@contextlib.contextmanager
def _silent(port: int, count: int, source: str, says: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that say no more."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, (source, 0))))
            if says:
                connections[-1].sendall(says)
        yield connections


def _connect(edge: Edge, name: str, source: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    raw = socket.create_connection(("127.0.0.1", edge.settings.edge_port), 5, (source, 0))
    return context.wrap_socket(raw, server_hostname=f"{name}.tunnels.localhost")


def _visit(edge: Edge, name: str, source: str = "127.0.0.1") -> int:
    with _connect(edge, name, source) as secure:
        secure.sendall(f"GET / HTTP/1.1\r\nhost: {name}.tunnels.localhost\r\nconnection: close\r\n\r\n".encode())
        return int(secure.recv(4096).split(b" ")[1])


def _visits(edge: Edge, name: str, count: int) -> list[int]:
    """Return the statuses of so many visits, fewer where one has found no connection."""
    with contextlib.suppress(OSError):
        return [_visit(edge, name) for _ in range(count)]
    return []


@needs_envoy
def test_silent_connections_shut_nobody_out(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_connections=300) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("demo") == "200")

        ports = edge.settings.edge_port, edge.settings.http_port
        with _silent(ports[0], 400, "127.0.0.66"), _silent(ports[1], 400, "127.0.0.66"):
            assert {_visit(edge, "demo") for _ in range(20)} == {200}
        with _silent(ports[0], 400, "127.0.0.66", b"\x16"), _silent(ports[1], 3000, "127.0.0.66", b"G"):
            assert {_visit(edge, "demo") for _ in range(20)} == {200}


@needs_envoy
def test_connections_that_ask_nothing_after_their_handshake_shut_nobody_out_for_long(
    tmp_path: Path, origin: int
) -> None:
    with running(tmp_path, with_envoy=True, max_connections=60) as edge, contextlib.ExitStack() as stack:
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("demo") == "200")

        for number in range(60):
            stack.enter_context(_connect(edge, "demo", f"127.0.0.{60 + number % 6}"))
        until(lambda: _visits(edge, "demo", 20) == [200] * 20, within=6)


@needs_envoy
def test_one_visitor_that_asks_too_often_is_refused_and_another_is_not(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_requests_per_visitor=2) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("demo") == "200")

        assert 429 in {_visit(edge, "demo", "127.0.0.66") for _ in range(60)}
        assert {_visit(edge, "demo", "127.0.0.7") for _ in range(8)} == {200}


def _slow_body(edge: Edge, name: str, source: str, stack: contextlib.ExitStack) -> ssl.SSLSocket:
    """Begin a request whose body never comes."""
    connection = stack.enter_context(_connect(edge, name, source))
    connection.sendall(f"POST / HTTP/1.1\r\nhost: {name}.tunnels.localhost\r\ncontent-length: 100000\r\n\r\nx".encode())
    return connection


@needs_envoy
def test_slow_bodies_of_one_visitor_leave_others_their_channels(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_S"), "-R", f"slow:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("slow") == "200")

    with contextlib.ExitStack() as stack:
        for _ in range(300):  # above MAX_CHANNELS_PER_TUNNEL
            _slow_body(edge, "slow", "127.0.0.66", stack)
        assert {_visit(edge, "slow", f"127.0.0.{70 + number % 20}") for number in range(60)} == {200}


@needs_envoy
def test_a_body_that_comes_too_slowly_is_answered_408(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, min_rate_grace=1) as edge, contextlib.ExitStack() as stack:
        edge.ssh(edge.key("acct_A"), "-R", f"slow:80:127.0.0.1:{origin}").wait_for("is online")
        until(lambda: edge.status("slow") == "200")

        answer = _slow_body(edge, "slow", "127.0.0.66", stack)
        answer.settimeout(12)
        response = answer.recv(4096)
        assert response.startswith(b"HTTP/1.1 408 ")
        assert response.endswith(b"408: the request body arrived too slowly.\n")
