"""Visitors that mean harm, each an address of its own, and what others still have of the edge."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from tests.edge.conftest import needs_envoy
from tests.edge.running import Edge, running, until


@contextlib.contextmanager
def _silent(port: int, count: int, source: str, says: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that say no more."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, (source, 0))))
            if says:
                opened[-1].sendall(says)
        yield opened


def _visit(edge: Edge, name: str, source: str = "127.0.0.1") -> int:
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    host = f"{name}.tunnels.localhost"
    raw = socket.create_connection(("127.0.0.1", edge.settings.edge_port), 5, (source, 0))
    with context.wrap_socket(raw, server_hostname=host) as secure:
        secure.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        return int(secure.recv(4096).split(b" ")[1])


@needs_envoy
def test_silent_connections_shut_nobody_out(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_connections=300) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}").says("is online")
        until(lambda: edge.status("demo") == "200")

        ports = edge.settings.edge_port, edge.settings.http_port
        with _silent(ports[0], 400, "127.0.0.66"), _silent(ports[1], 400, "127.0.0.66"):
            assert {_visit(edge, "demo") for _ in range(20)} == {200}
        with _silent(ports[0], 400, "127.0.0.66", b"\x16"), _silent(ports[1], 3000, "127.0.0.66", b"G"):
            assert {_visit(edge, "demo") for _ in range(20)} == {200}


@needs_envoy
def test_one_visitor_that_asks_too_often_is_refused_and_another_is_not(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_requests_per_visitor=10) as edge:
        edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{origin}").says("is online")
        until(lambda: edge.status("demo") == "200")

        assert 429 in {_visit(edge, "demo", "127.0.0.66") for _ in range(60)}
        assert {_visit(edge, "demo", "127.0.0.7") for _ in range(10)} == {200}
