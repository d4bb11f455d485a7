"""Circuit breakers of a real edge, compared with a model: which routes are tripped after some responses."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.circuit_breaker import CircuitBreakerModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from tests.edge import case_counts
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
ACCOUNT = "acct_A"
_WINDOW = 4  # seconds
_ROUTES = 100  # of an edge
_STATUSES = (200, 404, 500, 503)


@dataclass(frozen=True)
class Case:
    """A circuit breaker, and the responses that its tunnel gives in one window."""

    percent: int
    volume: int
    statuses: tuple[int, ...]
    has_module: bool

    @property
    def is_tripped(self) -> bool:
        failures, count = sum(status >= 500 for status in self.statuses), len(self.statuses)
        return self.has_module and count >= self.volume and 100 * failures >= self.percent * count


def draw(chance: Random) -> Case:
    count, volume = chance.randint(1, 8), chance.randint(1, 8)
    failures = chance.randint(0, count)
    statuses = [chance.choice(_STATUSES[2:]) for _ in range(failures)]
    statuses += [chance.choice(_STATUSES[:2]) for _ in range(count - failures)]
    percents = [1, 50, 100, max(1, 100 * failures // count), min(100, 100 * failures // count + 1)]
    return Case(chance.choice(percents), volume, tuple(chance.sample(statuses, count)), chance.random() < 0.9)


class _Origin(BaseHTTPRequestHandler):
    """A server that answers with the status in the request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(int(self.headers.get("x-status", "200")))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def group(edge: Edge) -> Iterator[str]:
    """Run a server behind a tunnel; yield the id of its group."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=circuits:80:localhost:{server.server_address[1]}")
    backend = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "circuits"}))
    edge.store.keep(backend)
    yield backend.id
    server.shutdown()


def serve(edge: Edge, group: str, name: str, cases: list[Case]) -> None:
    """Serve an edge with a route for each case, whose counts are empty."""
    routes = []
    for index, case in enumerate(cases):
        circuit_breaker = CircuitBreakerModule(
            tripped_duration=60, rolling_window=_WINDOW, volume_threshold=case.volume, error_percent=case.percent
        )
        modules = enabled(BackendModule(backend_id=group), circuit_breaker=circuit_breaker if case.has_module else None)
        routes.append(ServedRoute(ids.new("edghtsrt"), "path_prefix", f"/{index}/", modules))
    routes.append(ServedRoute(ids.new("edghtsrt"), "exact_path", "/ready", enabled(BackendModule(backend_id=group))))
    host = f"{name}.{edge.settings.tunnel_domain}:443"
    edge.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, (host,), routes=tuple(routes)))
    until(lambda: edge.status(name, path="/ready") == "200")


def send(edge: Edge, name: str, requests: list[tuple[str, int]]) -> list[tuple[int, bytes]]:
    """Return the responses to requests on one connection, each a path and the status to ask for."""
    host, responses = f"{name}.{edge.settings.tunnel_domain}:{edge.settings.edge_port}", []
    with edge.connect(name) as connection:
        for path, status in requests:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nx-status: {status}\r\n\r\n".encode())
            answer = HTTPResponse(connection)
            answer.begin()
            responses.append((answer.status, answer.read()))
    return responses


def find_differences(edge: Edge, group: str, name: str, cases: list[Case]) -> list[Case]:
    """Return the cases in which the edge and the model differ."""
    serve(edge, group, name, cases)
    requests = [[(f"/{index}/", status) for status in case.statuses] for index, case in enumerate(cases)]
    statuses_by_case = send_each(edge, name, requests)
    time.sleep(_WINDOW + 1)  # every window has ended
    last = send_each(edge, name, [[(f"/{index}/", 200)] for index in range(len(cases))])
    return [
        case
        for case, statuses, (status,) in zip(cases, statuses_by_case, last, strict=True)
        if statuses != [*case.statuses] or (status == 503) != case.is_tripped
    ]


def send_each(edge: Edge, name: str, requests: Sequence[list[tuple[str, int]]]) -> list[list[int]]:
    """Return the statuses of the responses, with a connection for each list of requests."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda targets: [status for status, _ in send(edge, name, targets)], requests))


def find_certain_differences(edge: Edge, group: str, name: str, cases: list[Case]) -> list[Case]:
    """Return the cases that differ five times. The end of a window can divide the requests of a case."""
    for attempt in "abcde":
        cases = find_differences(edge, group, f"{name}{attempt}", cases) if cases else []
    return cases


def test_routes_are_tripped_as_their_modules_say(edge: Edge, group: str) -> None:
    chance = Random(1)
    cases = [draw(chance) for _ in range(case_counts.at_least(_ROUTES))]
    for first in range(0, len(cases), _ROUTES):
        assert find_certain_differences(edge, group, f"tripped{first}", cases[first : first + _ROUTES]) == []


def test_a_tripped_tunnel_gets_requests_again_and_no_other_route_is_affected(edge: Edge, group: str) -> None:
    circuit_breaker = CircuitBreakerModule(tripped_duration=2, rolling_window=1, volume_threshold=1, error_percent=1)
    modules = enabled(BackendModule(backend_id=group), circuit_breaker=circuit_breaker)
    open_route = ServedRoute(ids.new("edghtsrt"), "path_prefix", "/open", enabled(BackendModule(backend_id=group)))
    routes = (ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", modules), open_route)
    host = f"again.{edge.settings.tunnel_domain}:443"
    edge.store.keep(ServedEdge(ACCOUNT, ids.new("edghts"), 1, (host,), routes=routes))
    until(lambda: edge.status("again") == "200")
    until(lambda: send(edge, "again", [("/", 500)])[0][0] == 503)
    assert send(edge, "again", [("/open", 200), ("/open", 500)]) == [(200, b""), (500, b"")]
    until(lambda: send(edge, "again", [("/", 200)])[0][0] == 200)
