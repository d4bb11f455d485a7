"""Circuit breakers: the CPU that they add to Envoy for a request to a tunnel."""

from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import edge_host, results, side_by_side
from bench.results import Row
from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.circuit_breaker import CircuitBreakerModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from infra import CommandError
from tests.edge import process_table, worst_filters
from tests.edge.edge_modules import enabled
from tests.live.edge.running import Edge, running, until, upstream

_ACCOUNT, _NAME = "acct_circuits", "circuits"
_BAR, _ROUNDS, _REQUESTS = 1.05, 31, 300


def compare() -> Row:
    """Compare a route with a circuit breaker with an open route to the same tunnel."""
    with (
        process_table.serving(),
        TemporaryDirectory() as folder,
        running(Path(folder), with_envoy=True, max_requests_per_visitor=10**6) as edge,
        upstream() as port,
    ):
        edge.ssh(edge.key(_ACCOUNT), "-R", f"app={_NAME}:80:127.0.0.1:{port}")
        group = ServedBackend(_ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": _NAME}))
        edge.store.keep(group)
        to_group = BackendModule(backend_id=group.id)
        routes = tuple(
            ServedRoute(ids.new("edghtsrt"), "path_prefix", path, enabled(to_group, circuit_breaker=module))
            for path, module in {"/tripped": CircuitBreakerModule(), "/open": None}.items()
        )
        host = f"{_NAME}.{edge.settings.tunnel_domain}:443"
        edge.store.keep(ServedEdge(_ACCOUNT, ids.new("edghts"), 1, (host,), routes=routes))
        until(lambda: edge.status(_NAME, path="/tripped") == edge.status(_NAME, path="/open") == "200")
        actions = [partial(_measure_round, edge, path) for path in ("/tripped", "/open")]
        taken, is_open = side_by_side.medians_of(actions, _ROUNDS)
    return results.at_most(_BAR, "CPU of Envoy, circuit_breaker: an open route", taken, is_open, results.us)


def _measure_round(edge: Edge, path: str) -> float:
    """Return Envoy's CPU seconds of a request."""
    head = f"GET {path} HTTP/1.1\r\nhost: {_NAME}.{edge.settings.tunnel_domain}\r\n\r\n".encode()
    envoy = int(worst_filters.envoy_in(edge.settings.directory).name)
    with edge.connect(_NAME) as connection:
        before = 0.0
        for number in range(-50, _REQUESTS):
            if number == 0:
                before = edge_host.cpu(envoy)
            connection.sendall(head)
            answer = HTTPResponse(connection)
            answer.begin()
            answer.read()
            if answer.status != 200:
                raise CommandError(f"{path} answered {answer.status}.")
        return (edge_host.cpu(envoy) - before) / _REQUESTS
