"""Clients of ports and of TLS passed through that take their time: let through, waited for, or refused."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import free_port
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, listens, running, until
from tests.live.edge.test_tls_and_tcp_edges import Echo, own_server

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def hasty_edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge that has a second's patience, and for a hello two."""
    with running(tmp_path_factory.mktemp("hasty"), with_envoy=True, tcp_idle_timeout=1, header_timeout=2) as edge:
        yield edge


@pytest.fixture(scope="module")
def passthrough_host(hasty_edge: Edge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Pass TLS on to a server of one account, beside a tunnel of another account; yield its host."""
    port, host = free_port(), f"passed.{hasty_edge.settings.tunnel_domain}"
    with own_server(tmp_path_factory.mktemp("upstream"), host, port):
        clients = [hasty_edge.ssh(hasty_edge.key("acct_A"), "-R", f"passed:443:localhost:{port}")]
        clients.append(hasty_edge.ssh(hasty_edge.key("acct_B"), "-R", "other:443:localhost:1"))
        hasty_edge.clients.clear()  # which other tests share
        until(lambda: ask(hasty_edge, [hello(host)]) == b"\x16")
        until(
            lambda: ask(hasty_edge, [hello(f"other.{hasty_edge.settings.tunnel_domain}")]) == b""
        )  # a page's until then
        yield host
        for client in clients:
            client.kill()


def hello(host: str | None, *protocols: str) -> bytes:
    """Return the first message of a client of TLS."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.set_alpn_protocols(protocols)
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host).do_handshake()
    return outgoing.read()


def ask(edge: Edge, pieces: list[bytes]) -> bytes:
    """Return the first byte of what is answered, "" where the connection ends."""
    with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.002 if len(pieces) > 1 else 0)
            return connection.recv(1)
        except OSError:
            return b""


def test_a_hello_in_a_hundred_pieces_is_passed_on(hasty_edge: Edge, passthrough_host: str) -> None:
    handshake = hello(passthrough_host)
    size = -(-len(handshake) // 100)
    assert ask(hasty_edge, [handshake[start : start + size] for start in range(0, len(handshake), size)]) == b"\x16"


@pytest.mark.parametrize(("count", "first"), [(60, b"\x16"), (70, b"")])
def test_a_hello_of_nearly_16_kib_is_passed_on_and_a_longer_one_refused(
    hasty_edge: Edge, passthrough_host: str, count: int, first: bytes
) -> None:
    handshake = hello(passthrough_host, *(f"{number:0240}" for number in range(count)))
    assert (len(handshake) > 16 << 10) == (first == b"")
    assert ask(hasty_edge, [handshake]) == first


def test_no_name_and_the_name_of_another_account_lead_elsewhere(hasty_edge: Edge, passthrough_host: str) -> None:
    assert ask(hasty_edge, [hello(f"other.{hasty_edge.settings.tunnel_domain}")]) == b""  # nothing is behind it
    assert ask(hasty_edge, [hello("elsewhere.example.com")]) == b"\x15"  # an alert
    with socket.create_connection(("127.0.0.1", hasty_edge.settings.edge_port), 5) as raw:
        trusting = ssl.create_default_context(cafile=hasty_edge.settings.directory / "authority.crt")
        trusting.check_hostname = False
        with trusting.wrap_socket(raw) as unnamed:  # the operator's own
            assert ("DNS", f"*.{hasty_edge.settings.tunnel_domain}") in unnamed.getpeercert()["subjectAltName"]  # type: ignore[index]


def test_whoever_says_nothing_is_ended_in_time_and_told_of_in_the_log(hasty_edge: Edge) -> None:
    port = hasty_edge.settings.tcp_ports[0]
    with contextlib.closing(Echo("echo")) as echo:
        hasty_edge.ssh(hasty_edge.key("acct_A"), "-R", f"{port}:localhost:{echo.port}").wait_for("is online")
        until(lambda: listens(port))
        with socket.create_connection(("127.0.0.1", port), 10) as silent:
            assert silent.recv(100) == b"echo\n"  # who says nothing is spoken to
            start = time.monotonic()
            silent.sendall(b"word")
            assert silent.recv(4, socket.MSG_WAITALL) == b"word"
            assert silent.recv(1) == b""
            assert 0.8 < time.monotonic() - start < 6
    until(lambda: any(line["bytes_in"] for line in lines(hasty_edge, port)))
    (line,) = (entry for entry in lines(hasty_edge, port) if entry["bytes_in"])
    names = ("account", "bytes_in", "bytes_out", "client", "ended", "flags", "host")
    assert [line[name] for name in names] == ["acct_A", 4, 9, "127.0.0.1", "tcp_session_idle_timeout", "-", None]
    assert 800 < line["milliseconds"] < 7000


def lines(edge: Edge, port: int) -> list[dict[str, Any]]:
    return [line for line in edge.access_log() if line.get("port") == port]


def test_a_visitor_of_tls_who_says_nothing_reaches_nobody_and_is_ended(hasty_edge: Edge, passthrough_host: str) -> None:
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", hasty_edge.settings.edge_port), 20) as silent:
        assert silent.recv(1) == b""
    assert 0.5 < time.monotonic() - start < 10
