"""User agent filters: what the worst of them cost Envoy and other accounts, with the worst requests."""

import asyncio
import itertools
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import results, visitors
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from edge.process.settings import Limits
from infra import CommandError
from infra.local.cloud import HOST
from tests.edge import process_table, worst_filters
from tests.edge.worst_filters import BAR, WORST, agents, cpu, headers
from tests.live.edge.running import ENVOY, Edge, running, until

EDGES, ROUTES = 8, 100
CONNECTIONS, ROUNDS = 10, 5
SLOWER, LATER = 1.5, 0.03  # others may take 1.5 of the quiet time, or 30 ms more
_GET, _GRPC = b"GET / HTTP/1.1\r\n", b"POST /group HTTP/1.1\r\ncontent-length: 0\r\ncontent-type: application/grpc\r\n"
_WORDS = [f"{number:064}" for number in range(66)]
LARGEST = UserAgentModule(allow=_WORDS, deny=[*_WORDS, "a[ab]{30}X"])


def measure(_setting: Setting) -> Result:
    if ENVOY is None:
        raise CommandError("The figure of filters needs the edge's environment: make .venv-edge/ready.")
    with (
        process_table.serving(),
        TemporaryDirectory() as named,
        running(Path(named), with_envoy=True, max_requests_per_visitor=10**6) as edge,
    ):
        worst_filters.serve(edge, "open", None)
        costs = {name: _costs(edge, name, rules) for name, rules in WORST.items()}
        rows = [_cost(f"{name}{kind}", cost) for name, kinds in costs.items() for kind, cost in kinds.items()]
        rows += [_names(edge), _memory(edge)]
    return Result([*rows, _wait(max(costs, key=lambda name: costs[name][""]))])


def _costs(edge: Edge, name: str, rules: UserAgentModule) -> dict[str, float]:
    """Return the CPU that a filter adds to a usual request and to a gRPC request."""
    host = f"worst{list(WORST).index(name)}"
    worst_filters.serve(edge, host, rules)
    lines = {"": _GET, ", gRPC": _GRPC}
    return {
        kind: cpu(edge, host, line, agents(rules)) - cpu(edge, "open", line, agents(rules))
        for kind, line in lines.items()
    }


def _cost(name: str, above: float) -> Row:
    figure = f"CPU of Envoy above no filter, {name}: {BAR} ms"
    return results.at_most(1, figure, above / 1e3, BAR / 1e3, results.ms)


def _names(edge: Edge) -> Row:
    names, values = (cpu(edge, "open", _GET, partial(headers, are_names=are_names)) for are_names in (True, False))
    figure = "CPU of Envoy, 60 KB of header names above 60 KB of values: 3 ms"
    return results.at_most(1, figure, (names - values) / 1e3, BAR / 1e3, results.ms)


def _memory(edge: Edge) -> Row:
    """Return Envoy's memory for 800 routes with the largest filters, compared with none."""
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
    modules = Modules({"backend": BackendModule(backend_id=answer.id), "user_agent_filter": rules})
    for number, route_modules in enumerate(itertools.repeat(modules, EDGES)):
        routes = tuple(
            ServedRoute(ids.new("edghtsrt"), "exact_path", f"/{index}", route_modules) for index in range(ROUTES)
        )
        hostport = f"{name}{number}.{edge.settings.tunnel_domain}:443"
        edge.store.keep(ServedEdge("acct_many", ids.new("edghts"), 1, (hostport,), routes=routes))
        until(lambda number=number: edge.status(f"{name}{number}", path="/0") == "200", within=60)  # type: ignore[misc]
    return worst_filters.resident(edge)


def _wait(name: str) -> Row:
    """Return how long other accounts' visitors wait while 100 requests a second meet a filter."""
    with visitors.running(Limits()) as ports:
        rounds = [_round(ports, list(WORST).index(name)) for _ in range(ROUNDS)]
    quiet, harmed = (min(times) for times in zip(*rounds, strict=True))
    figure = f"p99 of other accounts under {visitors.RATE} requests a second, {name}"
    return results.at_most(round(max(SLOWER, 1 + LATER / quiet), 2), figure, harmed, quiet, results.ms)


def _round(ports: visitors.Ports, index: int) -> tuple[float, float]:
    """Return the 99th percentile of others' seconds, in a quiet time and during the attack."""
    (_, quiet, failed), begun = visitors.visited(ports), visitors.SPAWN.Event()
    with visitors.child(visitors.harm, ask, ports, index, begun):
        if not begun.wait(60):
            raise CommandError("The edge with the filter does not answer.")
        _, harmed, failed_under_harm = visitors.visited(ports)
    if failed or failed_under_harm:
        raise CommandError(f"Of other accounts' requests {failed} failed, and {failed_under_harm} under harm.")
    return quiet, harmed


async def ask(ports: visitors.Ports, index: int, begun: Callable[[], object]) -> None:
    """Send 100 requests a second with the worst User-Agents to an edge with a filter, without end."""
    host, user_agents = f"worst{index}.tunnels.localhost", agents(list(WORST.values())[index])
    context = ssl._create_unverified_context()
    address = {"server_hostname": host, "local_addr": (visitors.ATTACKERS[0], 0)}
    streams = [
        await asyncio.open_connection(HOST, ports.edge, ssl=context, **address)  # type: ignore[arg-type]
        for _ in range(CONNECTIONS)
    ]
    begin = time.perf_counter()
    for number in itertools.count():
        await asyncio.sleep(max(0, begin + number / visitors.RATE - time.perf_counter()))
        reader, writer = streams[number % CONNECTIONS]
        if number >= CONNECTIONS:
            await _read_ok(reader)
        if number == 2 * CONNECTIONS:
            begun()
        writer.write(b"%bhost: %b\r\nuser-agent: %b\r\n\r\n" % (_GET, host.encode(), user_agents()))


async def _read_ok(reader: asyncio.StreamReader) -> None:
    """Read a response that passed the filter."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise CommandError(f"An edge with a filter answered {head!r}.")
    await reader.readuntil(b"open\n")
