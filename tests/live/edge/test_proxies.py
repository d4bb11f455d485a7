"""Visitors who come through a proxy of the operator's, which says who they are by the PROXY protocol."""

import contextlib
import queue
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges.served import ServedEdge
from edge.link import proxy_protocol
from edge.link.proxy_protocol import Header
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import ENVOY, Edge, listens, running, until
from tests.live.edge.test_upstream_proxy_protocol import reading

pytestmark = needs_envoy
PROXY, OTHER_ADDRESS = "127.0.0.2", "127.0.0.1"
VISITOR = Header(("203.0.113.7", 4711), ("198.51.100.1", 443))
FIRST = {
    "version 1": b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n",
    "version 2": VISITOR.encoded(),
}
UNBELIEVED = {
    "elsewhere, version 1": (OTHER_ADDRESS, FIRST["version 1"]),
    "elsewhere, version 2": (OTHER_ADDRESS, FIRST["version 2"]),
    "elsewhere, no header": (OTHER_ADDRESS, b""),
    "the proxy, no header": (PROXY, b""),
}


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run an edge that believes one address who its visitors are."""
    with running(tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None, believed=f"{PROXY}/32") as running_edge:
        yield running_edge


@contextlib.contextmanager
def coming(port: int, source: str = PROXY, first: bytes = FIRST["version 2"]) -> Iterator[socket.socket]:
    """Yield a connection from an address on which this was said first."""
    with socket.create_connection(("127.0.0.1", port), 5, (source, 0)) as connection:
        connection.sendall(first)
        yield connection


def ask(edge: Edge, name: str, first: bytes = FIRST["version 2"]) -> str:
    """Return the response to a GET of a tunnel's address through the proxy."""
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    host = f"{name}.{edge.settings.tunnel_domain}"
    with coming(edge.settings.edge_port, first=first) as raw, context.wrap_socket(raw, server_hostname=host) as secured:
        secured.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return read_all(secured).decode()


def read_all(connection: socket.socket) -> bytes:
    """Return all that comes until the other side ends, or resets the connection."""
    read = bytearray()
    with contextlib.suppress(ConnectionError):
        for piece in iter(lambda: connection.recv(4096), b""):
            read += piece
    return bytes(read)


@pytest.mark.parametrize("version", FIRST)
def test_the_upstream_and_the_log_read_the_visitors_address(edge: Edge, origin: int, version: str) -> None:
    name = f"said{version[-1]}"
    edge.ssh(edge.key("acct_A"), "-R", f"{name}:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: "x-forwarded-for: 203.0.113.7\n" in ask(edge, name, FIRST[version]))

    def lines() -> list[dict[str, Any]]:
        return [line for line in edge.access_log() if name in str(line["host"])]

    until(lambda: bool(lines()))
    assert {line["client"] for line in lines()} == {"203.0.113.7"}


def test_a_visitor_from_a_blocked_network_is_refused(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_A"), "-R", f"shut:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: ask(edge, "shut").startswith("HTTP/1.1 200"))

    edge.store.block("203.0.113.0/24")
    try:
        until(lambda: ask(edge, "shut").startswith("HTTP/1.1 403"))
    finally:
        edge.store.block()
    until(lambda: ask(edge, "shut").startswith("HTTP/1.1 200"))


def test_open_connections_of_one_address_of_ipv6_end_when_it_is_blocked_and_its_neighbours_stay(
    edge: Edge, origin: int
) -> None:
    name = f"six.{edge.settings.tunnel_domain}"
    port = edge.settings.tcp_ports[4]
    edge.ssh(edge.key("acct_A"), "-R", f"six:80:127.0.0.1:{origin}", "-R", f"{port}:127.0.0.1:{origin}")
    until(lambda: ask(edge, "six").startswith("HTTP/1.1 200") and listens(port))
    context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
    with contextlib.ExitStack() as stack:

        def open_connections(address: str) -> tuple[socket.socket, socket.socket]:
            first = Header((address, 4711), ("2001:db8::1", 443)).encoded()
            tls = context.wrap_socket(
                stack.enter_context(coming(edge.settings.edge_port, first=first)), server_hostname=name
            )
            connections = stack.enter_context(tls), stack.enter_context(coming(port, first=first))
            for connection in connections:
                connection.sendall(f"GET /held HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
                assert b" 200 " in connection.recv(4096)
            return connections

        bad, good = open_connections("2001:db8:0:1::2"), open_connections("2001:db8:0:1::3")
        edge.store.block("2001:db8:0:1::2/128")
        try:
            assert [read_all(connection) for connection in bad] == [b"", b""]
            for connection in good:
                connection.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    connection.recv(1)
        finally:
            edge.store.block()


def test_a_port_tells_its_upstream_who_the_visitor_is(edge: Edge) -> None:
    port = edge.settings.tcp_ports[0]
    address = edge.settings.address(port)
    edge.store.reserve_name("acct_A", address, proxy_protocol=True)
    with reading() as (upstream, first_bytes):
        edge.ssh(edge.key("acct_A"), "-R", f"{port}:127.0.0.1:{upstream}").wait_for("is online")
        until(lambda: listens(port))
        with coming(port) as visitor:
            visitor.sendall(b"hello" * 10)
            assert proxy_protocol.read(first_bytes.get(timeout=10)) == (VISITOR, len(VISITOR.encoded()))
        for source, first in UNBELIEVED.values():
            assert ask_port(port, source, first) == b""
        assert first_bytes.empty()


def test_a_header_of_the_proxy_chooses_no_tunnel(edge: Edge) -> None:
    own_port, other = edge.settings.tcp_ports[1:3]
    with reading() as (upstream, first_bytes), reading() as (other_upstream, received_by_other):
        edge.ssh(edge.key("acct_A"), "-R", f"{own_port}:127.0.0.1:{upstream}").wait_for("is online")
        edge.ssh(edge.key("acct_B"), "-R", f"{other}:127.0.0.1:{other_upstream}").wait_for("is online")
        until(lambda: listens(own_port) and listens(other))
        (tunnel,) = [tunnel.id for tunnel in edge.store.online.values() if tunnel.name == edge.settings.address(other)]
        with coming(own_port, first=_naming(tunnel)) as visitor:
            visitor.sendall(b"hello" * 10)
            until(
                lambda: first_bytes.get(timeout=10) == b"hello" * 10
            )  # behind the connections that waited for the port
        assert not any(received_by_other.queue)


def _naming(tunnel: str) -> bytes:
    """Return a header that names a tunnel as Envoy does to a gateway of its host."""
    fixed, body = VISITOR.encoded()[:14], VISITOR.encoded()[16:]
    body += struct.pack("!BH", proxy_protocol.TUNNEL, len(tunnel)) + tunnel.encode()
    return fixed + struct.pack("!H", len(body)) + body


def test_tls_passed_through_tells_its_upstream_who_the_visitor_is(edge: Edge) -> None:
    host = f"named.{edge.settings.tunnel_domain}"
    edge.store.reserve_name("acct_A", host, proxy_protocol=True)
    with reading() as (upstream, first_bytes):
        edge.ssh(edge.key("acct_A"), "-R", f"named:443:127.0.0.1:{upstream}").wait_for("is online")

        def is_told() -> bool:
            shake_hands(edge, host, PROXY)
            with contextlib.suppress(queue.Empty):
                return proxy_protocol.read(first_bytes.get(timeout=1)) == (VISITOR, len(VISITOR.encoded()))
            return False  # it is not served yet

        until(is_told)
        shake_hands(edge, host, OTHER_ADDRESS)
        assert first_bytes.empty()


def shake_hands(edge: Edge, host: str, source: str) -> None:
    """Begin a handshake from an address; it fails."""
    with contextlib.suppress(OSError), coming(edge.settings.edge_port, source) as visitor:
        ssl.create_default_context().wrap_socket(visitor, server_hostname=host)


@pytest.mark.parametrize("listener", ["https", "http"])
@pytest.mark.parametrize(("source", "first"), UNBELIEVED.values(), ids=UNBELIEVED)
def test_a_connection_that_no_proxy_speaks_for_is_closed(edge: Edge, source: str, first: bytes, listener: str) -> None:
    port = edge.settings.edge_port if listener == "https" else edge.settings.http_port
    assert ask_port(port, source, first) == b""


def ask_port(port: int, source: str, first: bytes) -> bytes:
    """Return what is answered to a request; all of it is sent at once, before the other side can have ended."""
    request = b"GET / HTTP/1.1\r\nHost: a.tunnels.localhost\r\n\r\n"
    with contextlib.suppress(ConnectionError), coming(port, source, first + request) as visitor:
        return read_all(visitor)
    return b""


def test_control_tries_an_edge_from_an_address_of_its_own(edge: Edge) -> None:
    served_edge = ServedEdge("acct_A", ids.new("edghts"), 1, (f"tried.{edge.settings.tunnel_domain}:443",))
    edge.store.keep(served_edge)

    until(lambda: edge.store.trial("acct_A", served_edge.id) is not None)

    trial = edge.store.trial("acct_A", served_edge.id)
    assert trial
    assert trial.errors == {}


def test_without_the_setting_nobody_is_believed(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True) as edge, reading() as (upstream, first_bytes):
        port = edge.settings.tcp_ports[0]
        edge.ssh(edge.key("acct_A"), "-R", f"{port}:127.0.0.1:{upstream}").wait_for("is online")
        until(lambda: listens(port))
        assert ask_port(edge.settings.edge_port, PROXY, FIRST["version 1"]).startswith(b"\x15\x03")  # an alert of TLS
        assert ask_port(edge.settings.http_port, PROXY, FIRST["version 1"]).startswith(b"HTTP/1.1 400")
        assert ask_port(port, PROXY, FIRST["version 1"]) == b""
        first = b""
        while not first:  # of who only looked whether it listens
            first = first_bytes.get(timeout=10)
        assert first.startswith(FIRST["version 1"][:30])
