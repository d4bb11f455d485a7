"""Challenges of certificate authorities (ACME): only the holder of a reserved name answers them."""

import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from chalicelib.model.edges.backends import TunnelGroup
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, running, until
from tests.live.edge.test_https_edges import ACCOUNT, backend, https_edge, route

_PATH = "/.well-known/acme-challenge/token"


def _reserve(edge: Edge, *names: str) -> None:
    for name in names:
        domain = f"{name}.{edge.settings.tunnel_domain}"
        edge.store.reserve_name(ACCOUNT, domain)


def _by_http(edge: Edge, name: str, path: str = _PATH) -> str:
    """Return the status of a request without TLS."""
    return _request_by_http(edge, f"{name}.{edge.settings.tunnel_domain}", path).split()[1]


def _request_by_http(edge: Edge, host: str, path: str) -> str:
    """Return the response to a request without TLS."""
    with socket.create_connection(("127.0.0.1", edge.settings.http_port), 10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


def _is_refused(edge: Edge, name: str, *protocols: str) -> bool:
    """Return whether the edge itself ends a handshake that offers some protocols before it sends anything."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=f"{name}.{edge.settings.tunnel_domain}")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10) as connection:
        connection.sendall(outgoing.read())
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True


def _check_pending_domain(edge: Edge) -> None:
    """Check that the challenge of a proved domain is answered as soon as it is written, also after a restart."""
    domain = "app.example.com"
    edge.store.reserve_name(ACCOUNT, domain)
    for number in range(3):
        edge.store.challenge(domain, f"token{number}", f"token{number}.print")
        path = _PATH.replace("token", f"token{number}")
        assert _request_by_http(edge, domain, path).endswith(f"token{number}.print")
    assert _request_by_http(edge, domain, _PATH).split()[1] == "308"
    edge.restart_control()
    until(lambda: _request_by_http(edge, domain, path).endswith("token2.print"))


@needs_envoy
@pytest.mark.needs("curl")
def test_challenges_are_answered_by_the_holders_of_reserved_names_alone(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        _reserve(edge, "mine")
        edge.ssh(edge.key(ACCOUNT), "-R", f"mine:80:127.0.0.1:{origin}", "-R", f"free:80:127.0.0.1:{origin}")
        until(lambda: edge.status("mine") == edge.status("free") == "200")
        assert [edge.status(name, path=_PATH) for name in ("mine", "free", "unknown")] == ["200", "404", "404"]
        assert [_by_http(edge, name) for name in ("mine", "free", "unknown")] == ["308", "404", "404"]
        assert [_by_http(edge, name, "/") for name in ("mine", "free", "unknown")] == ["308"] * 3
        _check_pending_domain(edge)
        assert [_is_refused(edge, name, "acme-tls/1") for name in ("mine", "free", "unknown")] == [True] * 3
        assert [_is_refused(edge, name, "h2", "http/1.1") for name in ("mine", "free", "unknown")] == [False] * 3


@needs_envoy
def test_handshakes_of_challenges_reach_upstreams_of_reserved_names_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as origin, running(tmp_path, with_envoy=True) as edge:
        _reserve(edge, "mine")
        port = origin.getsockname()[1]
        edge.ssh(edge.key(ACCOUNT), "-R", f"mine:443:127.0.0.1:{port}", "-R", f"free:443:127.0.0.1:{port}")

        def reaches(name: str, *protocols: str) -> bool:
            origin.settimeout(1)
            context = ssl.create_default_context()
            context.set_alpn_protocols(list(protocols))
            with socket.create_connection(("127.0.0.1", edge.settings.edge_port), 10) as raw:
                raw.settimeout(0.1)
                with contextlib.suppress(OSError):
                    context.wrap_socket(raw, server_hostname=f"{name}.{edge.settings.tunnel_domain}")
                try:
                    origin.accept()[0].close()
                except TimeoutError:
                    return False
                return True

        until(lambda: reaches("free", "h2"))
        until(lambda: reaches("mine", "acme-tls/1"))
        assert [_by_http(edge, name) for name in ("mine", "free")] == ["308", "404"]  # else it could answer over https
        assert [reaches("free", *protocols) for protocols in (["acme-tls/1"], ["h2", "acme-tls/1"], ["h2"])] == [
            False,
            False,
            True,
        ]


@needs_envoy
@pytest.mark.needs("curl")
def test_hosts_of_edges_that_are_not_reserved_refuse_challenges(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        https_edge(edge, "demo", route(backend(edge, "bkdtg", TunnelGroup(labels={"app": "site"}))))
        edge.ssh(edge.key(ACCOUNT), "-R", f"app=site:80:127.0.0.1:{origin}")
        until(lambda: edge.status("demo") == "200")
        assert edge.status("demo", path=_PATH) == "404"
        assert (_is_refused(edge, "demo", "acme-tls/1"), _is_refused(edge, "demo", "h2")) == (True, False)
