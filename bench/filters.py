"""User agent filters: the CPU that the worst of them cost Envoy, with the worst requests, and their memory."""

import itertools
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import results
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib import ids
from chalicelib.model.backends import HttpResponse
from chalicelib.model.modules import BackendModule, UserAgentModule
from chalicelib.model.served import Modules, ServedBackend, ServedEdge, ServedRoute
from infra import CommandError
from tests.edge import worst_filters
from tests.edge.running import ENVOY, Edge, running, until
from tests.edge.worst_filters import BAR, WORST, agents, cpu, headers

EDGES, ROUTES = 8, 100
_GET, _GRPC = b"GET / HTTP/1.1\r\n", b"POST /group HTTP/1.1\r\ncontent-length: 0\r\ncontent-type: application/grpc\r\n"
_WORDS = [f"{number:064}" for number in range(66)]
LARGEST = UserAgentModule(allow=_WORDS, deny=[*_WORDS, "a[ab]{30}X"])


def measure(_setting: Setting) -> Result:
    if ENVOY is None:
        raise CommandError("The figure of filters needs the edge's environment: make .venv-edge/ready.")
    with TemporaryDirectory() as named, running(Path(named), with_envoy=True, max_requests_per_visitor=10**6) as edge:
        worst_filters.serve(edge, "open", None)
        rows = [it for name, rules in WORST.items() for it in _costs(edge, name, rules)]
        return Result([*rows, _names(edge), _memory(edge)])


def _costs(edge: Edge, name: str, rules: UserAgentModule) -> list[Row]:
    """Return the CPU above a request without a filter, of a usual request and of one of gRPC."""
    host = f"worst{list(WORST).index(name)}"
    worst_filters.serve(edge, host, rules)
    lines = {"": _GET, ", gRPC": _GRPC}
    above = {
        kind: cpu(edge, host, it, agents(rules)) - cpu(edge, "open", it, agents(rules)) for kind, it in lines.items()
    }
    figure = "CPU of Envoy above no filter, {}{}: 3 ms"
    return [
        results.at_most(1, figure.format(name, kind), it / 1e3, BAR / 1e3, results.ms) for kind, it in above.items()
    ]


def _names(edge: Edge) -> Row:
    names, values = (cpu(edge, "open", _GET, partial(headers, are_names=it)) for it in (True, False))
    figure = "CPU of Envoy, 60 KB of header names above 60 KB of values: 3 ms"
    return results.at_most(1, figure, (names - values) / 1e3, BAR / 1e3, results.ms)


def _memory(edge: Edge) -> Row:
    """Return Envoy's memory with an account's 800 routes, each with the largest filter, beside that without filters."""
    without = _routes(edge, "plain", None)
    return results.reported(
        f"memory of Envoy for {EDGES * ROUTES} routes with the largest filter: none",
        _routes(edge, "large", LARGEST) - without,
        without,
        results.mib,
    )


def _routes(edge: Edge, name: str, rules: UserAgentModule | None) -> int:
    answer = ServedBackend("acct_many", ids.new("bkdhr"), HttpResponse())
    edge.store.keep(answer)
    modules = Modules(backend=BackendModule(backend_id=answer.id), user_agent_filter=rules)
    for number, made in enumerate(itertools.repeat(modules, EDGES)):
        routes = tuple(ServedRoute(ids.new("edghtsrt"), "exact_path", f"/{it}", made) for it in range(ROUTES))
        hostport = f"{name}{number}.{edge.settings.tunnel_domain}:443"
        edge.store.keep(ServedEdge("acct_many", ids.new("edghts"), 1, (hostport,), routes=routes))
        until(lambda number=number: edge.status(f"{name}{number}", path="/0") == "200", within=60)  # type: ignore[misc]
    return worst_filters.resident(edge)
