"""Connections over the link, as Envoy opens them, to what a real ssh forwards to."""

import contextlib
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge.envoy.ads.catalog import Name
from edge.link.proxy_protocol import Header
from edge.process import files
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.link_clients import Link, count_bytes, echoing, serving
from tests.live.edge.running import Edge, listens, running, until

VISITOR = Header(("192.0.2.9", 49153), ("127.0.0.1", 443))


def greeting(connection: socket.socket) -> None:
    """Say all first, and count what comes then."""
    connection.sendall(b"hello")
    connection.shutdown(socket.SHUT_WR)
    received_texts.append(b"".join(iter(lambda: connection.recv(1 << 16), b"")))


received_texts: list[bytes] = []


def open_tunnel(edge: Edge, port: int) -> str:
    """Open a tunnel on a port of TCP to a port of this machine; return its id."""
    edge.ssh(edge.key("acct_A"), "-R", f"0:127.0.0.1:{port}").wait_for("is online")
    (id,) = edge.store.online
    return id


@pytest.mark.parametrize("count", [0, 5, 3_000_000])
def test_who_has_sent_all_is_answered(edge: Edge, count: int) -> None:
    with serving(count_bytes) as port:
        link = Link(edge, open_tunnel(edge, port))
        link.send(b"x" * count)
        link.end()
        assert link.read() == f"{count} bytes".encode()


def test_an_upstream_that_has_sent_all_hears_what_comes_then(edge: Edge) -> None:
    received_texts.clear()
    with serving(greeting) as port:
        link = Link(edge, open_tunnel(edge, port))
        assert link.read() == b"hello"
        link.send(b"x" * 100_000)
        link.end()
        until(lambda: received_texts == [b"x" * 100_000])


@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_envoy_may_say_who_its_visitor_is_which_the_upstream_is_not_told(edge: Edge, piece: int) -> None:
    with serving(echoing) as port:
        link = Link(edge, open_tunnel(edge, port), VISITOR.encoded(), piece=piece)
        link.send(b"hello")
        link.end()
        assert link.read() == b"hello"


@pytest.mark.parametrize(("header", "first"), [(VISITOR, VISITOR), (None, Header())])
def test_the_upstream_is_told_where_the_reservation_says_so(edge: Edge, header: Header | None, first: Header) -> None:
    port = edge.settings.tcp_ports[-1]
    edge.store.reserve_name("acct_A", edge.settings.address(port), proxy_protocol=True)
    with serving(echoing) as upstream:
        client = edge.ssh(edge.key("acct_A"), "-R", f"{port}:127.0.0.1:{upstream}")
        client.wait_for("is online")
        (id,) = edge.store.online
        link = Link(edge, id, header.encoded() if header else b"")
        link.send(b"hello")
        link.end()
        assert link.read() == first.encoded() + b"hello"
        link.close()
        client.wait_for(f"{header.source[0] if header and header.source else '127.0.0.1'}  5 bytes in, ")


def test_a_backend_tunnel_is_told_of_visitors_as_envoy_tells(edge: Edge) -> None:
    with serving(echoing) as port:
        edge.ssh(edge.key("acct_A"), "-R", f"app=db:80:127.0.0.1:{port}").wait_for("is online")
        (id,) = edge.store.online
        for first in (VISITOR.encoded(), b""):
            link = Link(edge, id, first)
            link.send(b"hello")
            link.end()
            assert link.read() == first + b"hello"


def test_another_header_ends_the_connection(edge: Edge) -> None:
    with serving(echoing) as port:
        id = open_tunnel(edge, port)
        with pytest.raises((AssertionError, OSError)):
            Link(edge, id, b"\r\n\r\n\x00\r\nQUIT\n" + bytes.fromhex("2112000c") + bytes(12))
        link = Link(edge, id)
        link.end()
        assert link.read() == b""


class Near:
    """A connection of an Envoy on the gateway's host."""

    def __init__(self, edge: Edge, first: bytes) -> None:
        self._raw = socket.socket(socket.AF_UNIX)
        self._raw.settimeout(10)
        with files.shorten_socket_path(edge.settings.link_socket(edge.gateway.id)) as path:
            self._raw.connect(str(path))
        self._raw.sendall(first)
        self.send, self.close = self._raw.sendall, self._raw.close

    def end(self) -> None:
        """Say that nothing more is sent."""
        self._raw.shutdown(socket.SHUT_WR)

    def fill(self) -> int:
        """Send until nothing more is taken for half a second; return how many bytes were."""
        self._raw.settimeout(0.5)
        count = 0
        with contextlib.suppress(TimeoutError):
            while True:
                count += self._raw.send(bytes(1 << 16))
        return count

    def read(self) -> bytes:
        """Return what comes until the other side says that nothing more does."""
        return b"".join(iter(lambda: self._raw.recv(1 << 16), b""))


def naming(tunnel: str) -> bytes:
    """Return the header by which an Envoy near by names a tunnel and its visitor."""
    plain, value = VISITOR.encoded(), b"\xe0" + len(tunnel).to_bytes(2) + tunnel.encode()
    return plain[:14] + (len(plain) - 16 + len(value)).to_bytes(2) + plain[16:] + value


@pytest.mark.parametrize("count", [0, 5, 3_000_000])
def test_each_way_of_a_connection_near_by_ends_by_itself(edge: Edge, count: int) -> None:
    with serving(count_bytes) as port:
        visitor = Near(edge, naming(open_tunnel(edge, port)))
        visitor.send(b"x" * count)
        visitor.end()
        assert visitor.read() == f"{count} bytes".encode()


def test_an_upstream_near_by_that_has_sent_all_hears_what_comes_then(edge: Edge) -> None:
    received_texts.clear()
    with serving(greeting) as port:
        visitor = Near(edge, naming(open_tunnel(edge, port)))
        assert visitor.read() == b"hello"
        visitor.send(b"x" * 100_000)
        visitor.end()
        until(lambda: received_texts == [b"x" * 100_000])


def test_a_visitor_near_by_who_has_gone_frees_his_channel(edge: Edge) -> None:
    def waiting(connection: socket.socket) -> None:
        connection.recv(1)
        visitor_gone.wait(10)

    visitor_gone = threading.Event()
    with serving(waiting) as port:
        visitor = Near(edge, naming(open_tunnel(edge, port)))
        visitor.send(b"x")
        (tunnel,) = edge.gateway.tunnels._online.values()
        until(lambda: tunnel.open_channels == 1)
        visitor.close()
        until(lambda: tunnel.open_channels == 0, within=5)
        visitor_gone.set()


def test_of_a_visitor_near_by_who_has_gone_what_is_unread_is_dropped_soon(tmp_path: Path) -> None:
    def late(connection: socket.socket) -> None:
        has_gone.wait(10)
        time.sleep(3)
        read.append(len(b"".join(iter(lambda: connection.recv(1 << 16), b""))))

    has_gone, read = threading.Event(), list[int]()
    with running(tmp_path, with_envoy=False, upstream_timeout=1, idle_timeout=60) as edge, serving(late) as port:
        visitor = Near(edge, naming(open_tunnel(edge, port)))
        size = visitor.fill()
        visitor.close()
        has_gone.set()
        until(lambda: read != [])
        assert 0 < read[0] < size


@pytest.mark.parametrize("first", [naming("tn_unknown"), VISITOR.encoded(), Header().encoded(), b"GET / HTTP/1.1\r\n"])
def test_a_connection_near_by_that_names_no_tunnel_ends(edge: Edge, first: bytes) -> None:
    visitor = Near(edge, first)
    with contextlib.suppress(ConnectionResetError):
        assert visitor.read() == b""


def test_a_socket_near_by_is_for_its_user_and_group_alone(edge: Edge) -> None:
    path = edge.settings.link_socket(edge.gateway.id)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize("connect", [Link, lambda edge, id: Near(edge, naming(id))])
def test_a_visitor_who_reads_nothing_holds_the_upstream_back_and_nobody_else(
    edge: Edge, connect: Callable[[Edge, str], "Link | Near"]
) -> None:
    def pouring(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError):
            while True:
                poured[0] += connection.send(bytes(1 << 16))

    poured = [0]
    with serving(pouring) as port:
        id = open_tunnel(edge, port)
        slow = connect(edge, id)
        slow.send(b"x")
        until(lambda: poured[0] > 0)
        quick = connect(edge, id)
        quick.send(b"x")
        slow.close()
        assert poured[0] < 64 << 20
        quick.close()


@needs_envoy
def test_envoy_comes_near_by_with_bytes_and_tells_who_its_visitor_is(edge: Edge) -> None:
    edge.store.reserve_name("acct_A", f"tunnels.localhost:{edge.settings.tcp_ports[0]}", proxy_protocol=True)
    with serving(echoing) as port:
        tcp_port = edge.settings.tcp_ports[0]
        edge.ssh(edge.key("acct_A"), "-R", f"{tcp_port}:127.0.0.1:{port}").wait_for("is online")
        until(lambda: listens(tcp_port))
        with socket.create_connection(("127.0.0.1", tcp_port), 5) as visitor:
            header = Header(visitor.getsockname(), ("127.0.0.1", tcp_port)).encoded()
            assert visitor.recv(len(header), socket.MSG_WAITALL) == header
    cluster = edge.control.discovery.catalog.value(Name("cluster", f"{edge.gateway.id}/bytes"))
    assert f"{edge.gateway.id}.sock".encode() in cluster
