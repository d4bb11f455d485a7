"""Attempts of a visitor to pass a route that IP policies restrict to other addresses."""

import contextlib
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from ssl import SSLSocket

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from edge.link.proxy_protocol import Header
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Upstream, until, upstream

pytestmark = needs_envoy
ACCOUNT, NAME = "acct_A", "attempts"
ADMITTED = "192.0.2.1"
_CLAIMS = (
    *("X-Forwarded-For", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP"),
    *("X-Cluster-Client-IP", "X-Original-Forwarded-For", "X-Envoy-External-Address", "X-ProxyUser-Ip", "Client-IP"),
)
_SPELLINGS = (
    *("::ffff:192.0.2.1", "[::ffff:192.0.2.1]", "::ffff:c000:201", "::192.0.2.1", "3221225985", "0xc0000201"),
    *("192.0.2.1:80", "192.0.2.1, 127.0.0.1", "127.0.0.1, 192.0.2.1", "192.000.002.001", "192.0.513", " 192.0.2.1"),
)
_PATHS = (
    *(
        "//one",
        "/./one",
        "/open/../one",
        "/%6fne",
        "/open/%2e%2e/one",
        "/open\\..\\one",
        "/open;/../one",
        "/open//../one",
    ),
    *("/open/%2e%2e%2fone", "/open/..%5cone", "/open/%252e%252e/one", "/one/../one"),
)


class _Counting(Upstream):
    """A server behind a tunnel that counts requests for the restricted route."""

    requested: list[str] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        super().do_GET()

    do_HEAD = do_PUT = do_POST = do_OPTIONS = do_TRACE = do_GET


@pytest.fixture
def restricted_edge(edge: Edge) -> Iterator[Edge]:
    """Serve /one, which the visitor may not use, and /open."""
    with upstream(_Counting) as port:
        edge.ssh(edge.key(ACCOUNT), "-R", f"app={NAME}:80:127.0.0.1:{port}", "-R", f"beside:80:127.0.0.1:{port}")
        group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": NAME}))
        policy = ServedPolicy(ACCOUNT, ids.new("ipp"), Rules((parse_cidr("192.0.2.0/24"),)))
        for value in (group, policy):
            edge.store.keep(value)
        backend, restriction = BackendModule(backend_id=group.id), IpRestrictionModule(ip_policy_ids=[policy.id])
        routes = (
            ServedRoute(ids.new("edghtsrt"), "path_prefix", "/one", enabled(backend, ip_restriction=restriction)),
            ServedRoute(ids.new("edghtsrt"), "path_prefix", "/open", enabled(backend)),
        )
        host = f"{NAME}.{edge.settings.tunnel_domain}:443"
        edge.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, (host,), routes=routes))
        until(lambda: edge.status(NAME, path="/open") == edge.status("beside") == "200")
        yield edge


def attempts(host: str) -> Iterator[tuple[str, int, bytes, str]]:
    """Yield attempts: what is tried, the expected status, the bytes on a connection, and their method."""

    def get(path: str = "/one", *lines: str, method: str = "GET", of: str = host) -> bytes:
        return "\r\n".join((f"{method} {path} HTTP/1.1", f"host: {of}", *lines, "", "")).encode()

    for name in _CLAIMS:
        yield name, 403, get("/one", f"{name}: {ADMITTED}"), "GET"
    for spelling in _SPELLINGS:
        yield spelling, 403, get("/one", f"X-Forwarded-For: {spelling}", f"Forwarded: for={spelling}"), "GET"
    yield "two headers", 403, get("/one", f"X-Forwarded-For: {ADMITTED}", "X-Forwarded-For: 127.0.0.1"), "GET"
    for path in _PATHS:
        yield path, 400, get(path), "GET"
    for name in ("X-Original-URL", "X-Rewrite-URL", "X-Envoy-Original-Path"):
        yield name, 403, get("/one", f"{name}: /open"), "GET"
    for method in ("HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "PROPFIND"):
        yield method, 403, get(method=method), method
    name, _, port = host.partition(":")
    for other in (name.upper(), name, f"{name}.", f"{name}.:{port}", f"{name}:80"):
        yield f"the host {other}", 403, get(of=other), "GET"
    yield "another edge's host", 421, get(of=host.replace(NAME, "beside", 1)), "GET"
    yield "an absolute target", 403, get(f"https://{host}/one"), "GET"
    yield "the target of another host", 421, get(f"https://{host.replace(NAME, 'beside', 1)}/one"), "GET"
    yield "a query", 403, get("/one?/open"), "GET"
    yield "a fragment", 400, get("/one#/open"), "GET"
    upgrade = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: AAAA")
    yield "a WebSocket", 403, get("/one", *upgrade), "GET"
    yield "h2c", 403, get("/one", "connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAAA"), "GET"
    yield "HTTP/1.0", 403, get().replace(b"HTTP/1.1", b"HTTP/1.0"), "GET"
    yield "two lengths", 400, get("/open", "content-length: 0", "transfer-encoding: chunked") + b"0\r\n\r\n", "GET"
    yield "a return in a value", 403, get("/one", f"x: 1\rX-Forwarded-For: {ADMITTED}"), "GET"
    yield "the PROXY protocol inside TLS", 400, _proxy(ADMITTED, 1) + get(), "GET"


def test_no_attempt_passes(restricted_edge: Edge) -> None:
    all_attempts = list(
        attempts(f"{NAME}.{restricted_edge.settings.tunnel_domain}:{restricted_edge.settings.edge_port}")
    )
    assert len(all_attempts) >= 30
    _Counting.requested.clear()
    statuses = []
    for label, _, request, method in all_attempts:
        with restricted_edge.connect(NAME) as connection:
            statuses.append((label, _read_status(connection, request, method)))
    assert statuses == [(label, status) for label, status, _, _ in all_attempts]
    assert _Counting.requested == []


def test_no_first_bytes_of_a_connection_pass(restricted_edge: Edge) -> None:
    host = f"{NAME}.{restricted_edge.settings.tunnel_domain}:{restricted_edge.settings.edge_port}"
    with restricted_edge.connect(NAME) as connection:
        connection.sendall(
            "".join(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n" for path in ("/open", "/one")).encode()
        )
        assert [_read_status(connection) for _ in range(2)] == [200, 403]
    for header in (_proxy(ADMITTED, 1), _proxy(ADMITTED, 2)):
        with socket.create_connection(("127.0.0.1", restricted_edge.settings.edge_port), 5) as raw:
            raw.sendall(header)
            assert _is_refused(raw)


def test_no_attempt_passes_by_http_2(restricted_edge: Edge) -> None:
    claims = ("-H", f"x-forwarded-for: {ADMITTED}")
    statuses = {
        path: restricted_edge.status(NAME, "--http2", "--path-as-is", *claims, path=path) for path in ("/one", *_PATHS)
    }
    assert statuses == {"/one": "403", **dict.fromkeys(_PATHS, "400")}
    host = f"{NAME}.{restricted_edge.settings.tunnel_domain}:{restricted_edge.settings.edge_port}"
    assert restricted_edge.status("beside", "--http2", "-H", f"host: {host}", path="/one") == "421"
    assert restricted_edge.status(NAME, "--http2", path="/open") == "200"


def _is_refused(connection: socket.socket) -> bool:
    """Return whether a connection ends, at most with an alert of TLS."""
    try:
        return connection.recv(100)[:1] in (b"", b"\x15")
    except ConnectionResetError:
        return True


def _proxy(source: str, version: int) -> bytes:
    if version == 1:
        return f"PROXY TCP4 {source} 10.0.0.1 4711 443\r\n".encode()
    return Header((source, 4711), ("10.0.0.1", 443)).encoded()


def _read_status(connection: SSLSocket, request: bytes = b"", method: str = "GET") -> int:
    """Send bytes. Return the status of the response, 0 without one."""
    with contextlib.suppress(OSError):
        connection.sendall(request)
        answer = HTTPResponse(connection, method=method)
        answer.begin()
        answer.read()
        return answer.status
    return 0
