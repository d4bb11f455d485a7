"""Headers that a route adds and removes, as an upstream and a visitor see them, compared with a model."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from ssl import SSLSocket

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.headers.changed_headers import HeadersModule
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from tests.edge import case_counts, drawn_headers
from tests.edge.drawn_headers import OF_REQUESTS, OF_RESPONSES, DrawnChanges, Lines
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
ACCOUNT = "acct_A"
_ROUTES = 100  # of an edge


class _Origin(BaseHTTPRequestHandler):
    """A server that answers with the headers that it received, and sends those that a test has set."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    status = 200
    lines: Lines = ()

    def do_GET(self) -> None:
        body = json.dumps(self.headers.items()).encode()
        self.send_response_only(self.status)
        for name, value in (*self.lines, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def group(edge: Edge) -> Iterator[str]:
    """Run a server behind a tunnel; yield the id of its group."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=changes:80:localhost:{server.server_address[1]}")
    backend = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "changes"}))
    edge.store.keep(backend)
    yield backend.id
    server.shutdown()


def test_headers_are_changed_as_the_modules_say(edge: Edge, group: str) -> None:
    chance = Random(50)
    cases = [drawn_headers.draw(chance) for _ in range(case_counts.at_least(200))]
    for first in range(0, len(cases), _ROUTES):
        assert find_differences(edge, group, f"changes{first}", cases[first : first + _ROUTES]) == []


def find_differences(edge: Edge, group: str, name: str, cases: Sequence[DrawnChanges]) -> list[str]:
    """Serve a route for each of the drawn changes. Return how responses differ from the model."""
    upstream = BackendModule(backend_id=group)
    routes = [
        ServedRoute(
            ids.new("edghtsrt"),
            "exact_path",
            f"/{index}",
            enabled(upstream, request_headers=changes.of_requests, response_headers=changes.of_responses),
        )
        for index, changes in enumerate(cases)
    ]
    routes.append(ServedRoute(ids.new("edghtsrt"), "exact_path", "/ready", enabled(upstream)))
    host = f"{name}.{edge.settings.tunnel_domain}:443"
    edge.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, (host,), routes=tuple(routes)))
    _Origin.status, _Origin.lines = 200, ()
    until(lambda: edge.status(name, path="/ready") == "200")
    with edge.connect(name) as connection:
        exchanges = [_exchange(edge, connection, name, f"/{index}", changes) for index, changes in enumerate(cases)]
    return [
        f"{case}: {exchange}"
        for case, exchange in zip(cases, exchanges, strict=True)
        if exchange != (case.status, case.forwarded, case.answered)
    ]


def _exchange(
    edge: Edge, connection: SSLSocket, name: str, path: str, case: DrawnChanges
) -> tuple[int, dict[str, str], dict[str, str]]:
    """Return the status, the headers that reached the upstream, and those that reached the visitor."""
    _Origin.status, _Origin.lines = case.status, case.response
    host = f"{name}.{edge.settings.tunnel_domain}:{edge.settings.edge_port}"
    lines = "".join(f"{name}: {value}\r\n" for name, value in case.request)
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n".encode())
    answer = HTTPResponse(connection)
    answer.begin()
    forwarded: Lines = json.loads(answer.read())
    return answer.status, _select(forwarded, OF_REQUESTS), _select(answer.getheaders(), OF_RESPONSES)


def _select(lines: Lines, names: Sequence[str]) -> dict[str, str]:
    lowered = {name.lower() for name in names}
    return drawn_headers.join((name, value) for name, value in lines if name.lower() in lowered)


def test_an_upstream_and_a_visitor_see_the_changes_of_the_route(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=headers:80:localhost:{origin}")
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "headers"}))
    edge.store.keep(group)
    upstream = BackendModule(backend_id=group.id)
    of_requests = HeadersModule(add={"X-Edge": "100%", "Authorization": "Basic eA=="}, remove=["Cookie", "X-Debug"])
    of_responses = HeadersModule(add={"X-Frame-Options": "DENY"}, remove=["Server", "Content-Type"])
    modules = enabled(backend=upstream, request_headers=of_requests, response_headers=of_responses)
    routes = (
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", modules),
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/plain", enabled(backend=upstream)),
    )
    served_edge = ServedEdge(
        ACCOUNT, ids.new("edghts"), 1, (f"headers.{edge.settings.tunnel_domain}:443",), routes=routes
    )
    edge.store.keep(served_edge)
    until(lambda: edge.status("headers", path="/plain") == "200")
    header_lines = ("x-edge: mine", "x-debug: 1", "cookie: a=b", "authorization: c")
    header_arguments = [argument for header in header_lines for argument in ("-H", header)]

    for version in ("--http1.1", "--http2"):
        response = edge.curl("headers", version, "-i", *header_arguments)
        assert "x-edge: 100%\n" in response
        assert "authorization: Basic eA==\n" in response
        assert not [
            text for text in ("mine", "x-debug", "cookie: a=b", "authorization: c", "server:") if text in response
        ], response
        assert "x-frame-options: DENY" in response
        plain = edge.curl("headers", version, "-i", *header_arguments, path="/plain")
        assert "x-edge: mine\n" in plain
        assert "cookie: a=b\n" in plain
        assert "DENY" not in plain

    without = replace(routes[0], modules=enabled(backend=upstream))
    edge.store.keep(replace(served_edge, revision=2, routes=(without, routes[1])))
    until(lambda: "x-edge: mine" in edge.curl("headers", *header_arguments), within=3)
