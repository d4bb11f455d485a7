"""Edges that pass connections on as bytes: of TLS, of TCP, and of HTTPS whose TLS ends upstream; clients of others."""

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup, Weighted
from chalicelib.model.edges.edge_status import EdgeStatus
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from tests import openssl
from tests.conftest import free_port
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, listens, until

ACCOUNT = "acct_streams"
pytestmark = needs_envoy


class Echo:
    """A server that says its name, sends back what it reads, and at the end of that says goodbye."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self.met = 0  # connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self.met += 1
        with connection, contextlib.suppress(OSError):
            connection.sendall(self._name + b"\n")
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.sendall(b"goodbye\n")


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with contextlib.closing(Echo("echo")) as server:
        yield server


def backend(edge: Edge, prefix: str, value: Any) -> str:
    record = ServedBackend(ACCOUNT, ids.new(prefix), value)
    edge.store.keep(record)
    return record.id


def group(edge: Edge, app: str) -> str:
    return backend(edge, "bkdtg", TunnelGroup(labels={"app": app}))


def attach(id: str, **more: Any) -> Modules:
    return enabled(BackendModule(backend_id=id), **more)


def keep(edge: Edge, prefix: str, hostport: str, modules: Modules, **more: Any) -> ServedEdge:
    served_edge = ServedEdge(ACCOUNT, ids.new(prefix), 1, (hostport,), modules=modules, **more)
    edge.store.keep(served_edge)
    return served_edge


def tls_edge(edge: Edge, name: str, modules: Modules) -> ServedEdge:
    return keep(edge, "edgtls", f"{name}.{edge.settings.tunnel_domain}:443", modules)


def tcp_edge(edge: Edge, port: int, modules: Modules) -> ServedEdge:
    return keep(edge, "edgtcp", f"{edge.settings.tunnel_domain}:{port}", modules)


def read_status(edge: Edge, served_edge: ServedEdge) -> EdgeStatus | None:
    status = edge.store.status(served_edge)
    return status if status and status.revision == served_edge.revision else None


def is_live(edge: Edge, served_edge: ServedEdge, tunnels: int = 1) -> bool:
    """Return whether the status says live with so many tunnels, which Envoy then has."""
    status = read_status(edge, served_edge)
    is_said = (
        status is not None and status.state == "live" and sum(backend.tunnels for backend in status.backends) == tunnels
    )
    if is_said:
        edge.settle()
    return is_said


def answer(port: int, content: bytes = b"") -> bytes:
    """Return all that a port of TCP answers when this was sent, and then the end."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        sending = threading.Thread(target=_send, args=(connection, content))
        sending.start()
        reply = read(connection)
        sending.join()
        return reply


def _send(connection: socket.socket, content: bytes) -> None:
    connection.sendall(content)
    connection.shutdown(socket.SHUT_WR)


def read(connection: socket.socket) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            content += data
    return content


def test_an_open_connection_of_a_tcp_edge_from_a_blocked_network_ends_within_five_seconds(
    edge: Edge, echo: Echo
) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=shut:80:localhost:{echo.port}")
    port = edge.settings.tcp_ports[6]
    served_edge = tcp_edge(edge, port, attach(group(edge, "shut")))
    until(lambda: is_live(edge, served_edge))
    bad, good = (socket.create_connection(("127.0.0.1", port), 5, (source, 0)) for source in ("127.0.0.2", "127.0.0.3"))
    with bad, good:
        assert (bad.recv(100), good.recv(100)) == (b"echo\n", b"echo\n")
        edge.store.block("127.0.0.2/32")
        try:
            assert read(bad) == b""
            good.sendall(b"on")
            assert good.recv(100) == b"on"
        finally:
            edge.store.block()


def test_a_port_of_a_tcp_edge_leads_to_its_group(edge: Edge, echo: Echo) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=tcp:80:localhost:{echo.port}")
    port = edge.settings.tcp_ports[0]
    served_edge = tcp_edge(edge, port, attach(group(edge, "tcp")))
    until(lambda: is_live(edge, served_edge))
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        assert connection.recv(100) == b"echo\n"
        connection.sendall(b"x" * 1000)
        assert connection.recv(1000, socket.MSG_WAITALL) == b"x" * 1000


def test_a_port_outside_of_tcp_ports_is_not_open_and_the_status_says_why(edge: Edge) -> None:
    ports = edge.settings.tcp_ports
    served_edge = tcp_edge(edge, port := ports[-1] + 1, attach(group(edge, "outside")))
    until(lambda: edge.store.status(served_edge) is not None)
    status = edge.store.status(served_edge)
    assert status
    error = f"The port is not open: {port} is outside of TCP_PORTS, {ports[0]} to {ports[-1]}."
    assert (status.state, [(hostport.hostport, hostport.state, hostport.error) for hostport in status.hostports]) == (
        "refused",
        [(*served_edge.hostports, "refused", error)],
    )


def test_a_tls_edge_ends_the_handshake_and_leads_bytes_to_its_group(edge: Edge, echo: Echo) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=tls:80:localhost:{echo.port}")
    served_edge = tls_edge(edge, "tls", attach(group(edge, "tls")))
    until(lambda: is_live(edge, served_edge))
    with edge.connect("tls") as connection:
        assert connection.recv(100) == b"echo\n"
        connection.sendall(b"x" * 1000)
        assert connection.makefile("rb").read(1000) == b"x" * 1000


@contextlib.contextmanager
def own_server(folder: Path, host: str, port: int) -> Iterator[ssl.SSLContext]:
    """Run a server of openssl with a certificate that nobody else has; yield what trusts it alone."""
    server_pair = openssl.issue(f"/CN={host}", extensions=(f"subjectAltName=DNS:{host}",))
    (folder / "cert").write_text(server_pair.certificate)
    (folder / "key").write_text(server_pair.key)
    command = ["openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{port}", "-cert", "cert", "-key", "key", "-www"]
    with subprocess.Popen(command, cwd=folder) as server:
        try:
            yield ssl.create_default_context(cadata=server_pair.certificate)
        finally:
            server.kill()


def ask(edge: Edge, host: str, context: ssl.SSLContext) -> bytes:
    """Return how a server that is trusted begins to answer, "" where there is none."""
    with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 5) as raw:
        try:
            with context.wrap_socket(raw, server_hostname=host) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return connection.recv(12)
        except OSError:
            return b""


def test_tls_that_ends_upstream_is_passed_on_untouched(edge: Edge, folder: Path) -> None:
    host, port = f"upstream.{edge.settings.tunnel_domain}", free_port()
    with own_server(folder, host, port) as context:
        edge.ssh(edge.key(ACCOUNT), "-R", f"app=up:80:localhost:{port}")
        route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", attach(group(edge, "up")))
        served_edge = keep(edge, "edghts", f"{host}:443", enabled(), terminate_at="upstream", routes=(route,))
        until(lambda: is_live(edge, served_edge))
        assert ask(edge, host, context) == b"HTTP/1.0 200"


def test_a_banned_name_is_passed_on_by_no_wildcard_edge(edge: Edge, folder: Path) -> None:
    domain, port = f"wild.{edge.settings.tunnel_domain}", free_port()
    with own_server(folder, f"*.{domain}", port) as context:
        edge.ssh(edge.key(ACCOUNT), "-R", f"app=wild:80:localhost:{port}")
        route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", attach(group(edge, "wild")))
        keep(edge, "edghts", f"*.{domain}:443", enabled(), terminate_at="upstream", routes=(route,))

        def visit() -> list[bytes]:
            return [ask(edge, f"{name}.{domain}", context) for name in ("shop", "bank")]

        until(lambda: visit() == [b"HTTP/1.0 200"] * 2)
        edge.store.ban("*bank*")
        until(lambda: visit() == [b"HTTP/1.0 200", b""], within=5)
        edge.store.ban()


def test_a_tunnel_of_tls_is_passed_on_untouched(edge: Edge, folder: Path) -> None:
    host, port = f"passed.{edge.settings.tunnel_domain}", free_port()
    with own_server(folder, host, port) as context:
        edge.ssh(edge.key(ACCOUNT), "-R", f"passed:443:localhost:{port}").wait_for(f"tls://{host}")
        until(lambda: ask(edge, host, context) == b"HTTP/1.0 200")


def test_a_port_of_a_tunnel_leads_there_both_ways_to_the_end(edge: Edge, echo: Echo) -> None:
    port = edge.settings.tcp_ports[1]
    edge.ssh(edge.key(ACCOUNT), "-R", f"{port}:localhost:{echo.port}").wait_for(
        f"tcp://{edge.settings.tunnel_domain}:{port}"
    )
    until(lambda: listens(port))
    assert answer(port, b"x" * 1_000_000) == b"echo\n" + b"x" * 1_000_000 + b"goodbye\n"


def handshake(edge: Edge, folder: Path, client: openssl.Issued | None, version: str = "-tls1_3") -> tuple[bool, str]:
    """Return whether a client is let in by the edge named mutual, and what it reads."""
    certificate_arguments = ["-cert", "cert", "-key", "key"] if client else []
    if client:
        (folder / "cert").write_text(client.certificate)
        (folder / "key").write_text(client.key)
    address_arguments = [
        "-connect",
        f"127.0.0.1:{edge.settings.edge_port}",
        "-servername",
        f"mutual.{edge.settings.tunnel_domain}",
    ]
    command = ["openssl", "s_client", "-quiet", version, *address_arguments, *certificate_arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        assert process.stderr
        read = process.stdout.readline().decode()
        process.kill()
        return b"alert" not in process.stderr.read(), read


def issue_dated(issuer: openssl.Issued, end: str) -> openssl.Issued:
    """Return the certificate of a client until a time that is written as 20260131120000Z."""
    key = openssl.key("p256", "dated")
    request = openssl.run("req", "-new", "-config", "config", "-subj", "/CN=dated", "-key", "key", files={"key": key})
    files = {"ca": issuer.certificate, "key": issuer.key, "request": request}
    signing = ("ca", "-config", "config", "-batch", "-notext", "-md", "sha256", "-cert", "ca", "-keyfile", "key")
    dates = ("-startdate", "20240101000000Z", "-enddate", end)
    return openssl.Issued(openssl.run(*signing, *dates, "-in", "request", files=files), key)


def test_mutual_tls_lets_clients_of_its_authorities_in_and_tells_the_tunnel_of_no_other(
    edge: Edge, echo: Echo, folder: Path
) -> None:
    constraint = ("basicConstraints=critical,CA:TRUE",)
    authority, another = (openssl.issue(f"/CN={name}", extensions=constraint) for name in ("clients", "others"))
    served_authority = ServedAuthority(ACCOUNT, ids.new("ca"), authority.certificate)
    edge.store.keep(served_authority)
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=mutual:80:localhost:{echo.port}")
    mutual = MutualTlsModule(certificate_authority_ids=[served_authority.id])
    served_edge = tls_edge(edge, "mutual", attach(group(edge, "mutual"), mutual_tls=mutual))
    until(lambda: is_live(edge, served_edge))
    assert handshake(edge, folder, issue_dated(authority, "20991231000000Z")) == (True, "echo\n")
    for kind in ("rsa-2048", "p256", "p384", "ed25519"):
        client = openssl.issue("/CN=client", kind, issuer=authority)
        assert handshake(edge, folder, client) == (True, "echo\n")
    assert handshake(edge, folder, openssl.issue("/CN=client", issuer=authority), "-tls1_2") == (True, "echo\n")
    count_before = echo.met
    for presented in (None, openssl.issue("/CN=client", issuer=another), issue_dated(authority, "20250101000000Z")):
        assert handshake(edge, folder, presented) == (False, "")
    assert echo.met == count_before


def test_weights_share_out_connections_and_open_ones_stay_when_they_change(edge: Edge) -> None:
    port, folder = edge.settings.tcp_ports[2], edge.key(ACCOUNT)
    with contextlib.closing(Echo("old")) as old, contextlib.closing(Echo("new")) as new:
        clients = {
            name: edge.ssh(folder, "-R", f"app={name}:80:localhost:{server.port}")
            for name, server in (("old", old), ("new", new))
        }
        groups = {name: group(edge, name) for name in clients}
        weighted = ServedBackend(ACCOUNT, ids.new("bkdwd"), Weighted(backends={groups["old"]: 1, groups["new"]: 0}))
        edge.store.keep(weighted)
        served_edge = tcp_edge(edge, port, attach(weighted.id))
        until(lambda: is_live(edge, served_edge))
        edge.settle()
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            assert connection.recv(4) == b"old\n"
            edge.store.keep(replace(weighted, value=Weighted(backends={groups["old"]: 1, groups["new"]: 1})))
            until(lambda: {answer(port) for _ in range(8)} == {b"old\ngoodbye\n", b"new\ngoodbye\n"})
            other = tcp_edge(edge, edge.settings.tcp_ports[3], attach(groups["new"]))
            until(lambda: is_live(edge, other))
            edge.store.keep(replace(weighted, value=Weighted(backends={groups["old"]: 0, groups["new"]: 1})))
            until(lambda: {answer(port) for _ in range(4)} == {b"new\ngoodbye\n"})
            connection.sendall(b"still")
            assert connection.recv(5, socket.MSG_WAITALL) == b"still"
            clients["new"].kill()
            until(lambda: answer(port) == b"")
            connection.sendall(b"again")
            assert connection.recv(5, socket.MSG_WAITALL) == b"again"


def test_a_port_that_the_system_does_not_give_hurts_itself_alone(edge: Edge, echo: Echo) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=given:80:localhost:{echo.port}")
    to = attach(group(edge, "given"))
    ports = edge.settings.tcp_ports
    with socket.create_server(("127.0.0.1", ports[4])):
        occupied, available = tcp_edge(edge, ports[4], to), tcp_edge(edge, ports[5], to)
        until(lambda: is_live(edge, available))
        until(lambda: bool((status := read_status(edge, occupied)) and status.state == "refused"))
        status = read_status(edge, occupied)
        assert status
        assert "Address already in use" in status.hostports[0].error
    assert answer(ports[5]) == b"echo\ngoodbye\n"
