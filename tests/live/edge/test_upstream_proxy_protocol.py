"""Who a visitor is, as the upstream of a reserved name or port reads it before all else, through a real Envoy."""

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from edge.link import proxy_protocol
from edge.link.proxy_protocol import Header
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Upstream, until, upstream

pytestmark = needs_envoy


@contextlib.contextmanager
def reading() -> "Iterator[tuple[int, queue.Queue[bytes]]]":
    """Yield a port, and the queue of what came first there on each connection, which is closed then."""
    first_bytes: queue.Queue[bytes] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        first_bytes.put(_first(connection))

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], first_bytes
        listening.shutdown(socket.SHUT_RDWR)


def _first(connection: socket.socket) -> bytes:
    connection.settimeout(5)
    content = b""
    while len(content) < 30 and (data := connection.recv(1000)):
        content += data
    return content


def open_tunnel(edge: Edge, name: str, forward: str, upstream: int) -> None:
    edge.store.reserve_name("acct_A", name, proxy_protocol=True)
    edge.ssh(edge.key("acct_A"), "-R", f"{forward}:127.0.0.1:{upstream}").wait_for("is online")


def header_in(first: bytes) -> tuple[Header | None, bytes]:
    parsed = proxy_protocol.read(first)
    assert parsed
    return parsed[0], first[parsed[1] :]


def test_a_port_tells_its_upstream_who_the_visitor_is(edge: Edge) -> None:
    port = edge.settings.tcp_ports[0]
    with reading() as (upstream, first_bytes):
        open_tunnel(edge, edge.settings.address(port), str(port), upstream)
        with visiting(port) as visitor:
            visitor.sendall(b"hello" * 10)
            expected = Header(visitor.getsockname(), ("127.0.0.1", port))
            assert header_in(first_bytes.get(timeout=10)) == (expected, b"hello" * 10)


def test_tls_passed_through_tells_its_upstream_who_the_visitor_is(edge: Edge) -> None:
    host = f"named.{edge.settings.tunnel_domain}"
    with reading() as (upstream, first_bytes):
        open_tunnel(edge, host, "named:443", upstream)
        visitors = []  # what one sends may come when the next one has been there

        def is_told() -> bool:
            with visiting(edge.settings.edge_port) as visitor, contextlib.suppress(OSError):
                visitors.append(visitor.getsockname())
                ssl.create_default_context().wrap_socket(visitor, server_hostname=host)
            with contextlib.suppress(queue.Empty):
                header, rest = header_in(first_bytes.get(timeout=1))
                assert header
                assert header.source in visitors
                assert rest[:2] == b"\x16\x03"
                return True
            return False  # it is not served yet

        until(is_told)


@pytest.mark.needs("curl")
def test_an_https_tunnel_tells_its_upstream_who_the_visitor_is_of_each_request(edge: Edge) -> None:
    with answering() as (port, visitors):
        open_tunnel(edge, f"web.{edge.settings.tunnel_domain}", "web:80", port)
        until(lambda: edge.status("web") == "200")
        visitors.clear()
        sources = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.4"]
        for protocol in ("--http1.1", "--http2"):
            assert {edge.status("web", protocol, "--interface", source) for source in sources} == {"200"}
        assert visitors == [*sources, *sources]
        on_another = edge.status("other", "-H", f"Host: web.{edge.settings.tunnel_domain}")
        assert (on_another, len(visitors)) == ("421", 8)  # a browser would come on what it has of the certificate


@pytest.mark.needs("curl")
def test_an_https_edge_tells_the_tunnels_of_its_groups_who_visitors_are(edge: Edge) -> None:
    name = f"shop.{edge.settings.tunnel_domain}"
    with answering() as (port, visitors):
        group = ServedBackend("acct_A", ids.new("bkdtg"), TunnelGroup(labels={"app": "shop"}))
        route = ServedRoute(
            ids.new("edghtsrt"), "path_prefix", "/", enabled(backend=BackendModule(backend_id=group.id))
        )
        edge.store.reserve(ServedReservation("acct_A", ids.new("rd"), name, True, proxy_protocol=True))
        edge.store.keep(group)
        edge.store.keep(ServedEdge("acct_A", ids.new("edghts"), 1, (f"{name}:443",), routes=(route,)))
        edge.ssh(edge.key("acct_A"), "-R", f"app=shop:80:127.0.0.1:{port}").wait_for("is online")
        until(lambda: edge.status("shop") == "200")
        visitors.clear()
        sources = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.4"]
        assert {edge.status("shop", "--interface", source) for source in sources} == {"200"}
        assert visitors == sources


def test_an_edge_of_tcp_tells_the_tunnels_of_its_group_who_the_visitor_is(edge: Edge) -> None:
    port = edge.settings.tcp_ports[1]
    address = edge.settings.address(port)
    with reading() as (upstream, first_bytes):
        group = ServedBackend("acct_A", ids.new("bkdtg"), TunnelGroup(labels={"app": "db"}))
        modules = enabled(backend=BackendModule(backend_id=group.id))
        served_edge = ServedEdge("acct_A", ids.new("edgtcp"), 1, (address,), modules=modules)
        edge.store.reserve_name("acct_A", address, proxy_protocol=True)
        edge.ssh(edge.key("acct_A"), "-R", f"app=db:80:127.0.0.1:{upstream}").wait_for("is online")
        edge.store.keep(group)
        edge.store.keep(served_edge)
        visitors = []

        def is_told() -> bool:
            with contextlib.suppress(OSError, queue.Empty), visiting(port) as visitor:
                visitors.append(Header(visitor.getsockname(), ("127.0.0.1", port)))
                visitor.sendall(b"hello" * 10)
                header, rest = header_in(first_bytes.get(timeout=1))
                assert (header in visitors, rest) == (True, b"hello" * 10)
                return True
            return False  # it is not served yet

        until(is_told)


@contextlib.contextmanager
def answering() -> Iterator[tuple[int, list[str]]]:
    """Yield the port of a server that reads the PROXY protocol, and the addresses in it, one for each request."""
    visitors: list[str] = []

    class Answering(Upstream):
        def setup(self) -> None:
            super().setup()
            header, _ = header_in(self.rfile.read(16 + 12))
            self.source = header.source[0] if header and header.source else "nobody"

        def do_GET(self) -> None:
            visitors.append(self.source)
            super().do_GET()

    with upstream(Answering) as port:
        yield port, visitors


@contextlib.contextmanager
def visiting(port: int) -> Iterator[socket.socket]:
    connections: list[socket.socket] = []

    def is_connected() -> bool:
        with contextlib.suppress(OSError):
            connections.append(socket.create_connection(("127.0.0.1", port), 5))
        return bool(connections)

    until(is_connected)
    with connections[0]:
        yield connections[0]
