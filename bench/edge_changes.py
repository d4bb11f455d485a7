"""Changes on an edge host with 1,000 loaded edges: time until they are live, control's CPU, and reads."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench import edge_host, results
from bench.edge_accounts import Accounts, create_edge
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from bench.tenants import Served, Tenant
from chalicelib.storage.records import change_log
from infra.deploy import data_stack

_TABLE, _DOMAIN = "edge-changes", "tunnels.localhost"
_LOADED, _CHANGES = 1000, 20  # edges of as many accounts, and changes of each kind
_PERIOD, _IDLE = 0.6, 10.0  # seconds from one change to the next, and of a measurement without changes
_NO_RESYNC = 90.0  # seconds after a name is loaded in which control does not read its account again
_USUAL, _LONGEST, _MOST_CPU = 0.7, 2.0, 0.005  # seconds: median and maximum until a change is live; CPU of control
_READS = ("BatchGetItem", "Decrypt")  # an account is not read without these calls
_IDLE_CPU = 0.01  # seconds of CPU in a second, of a control without changes


@dataclass(frozen=True)
class _Edge:
    """An edge, and a second response for its route."""

    tenant: Tenant
    served: Served
    other: str

    @staticmethod
    def create(label: str) -> "_Edge":
        """Create an account with a certificate and an edge."""
        tenant = Tenant(label, _DOMAIN)
        tenant.upload(f"{label}.{_DOMAIN}")
        return _Edge(tenant, tenant.serve(label), tenant.create("/backends/http_response", {"status_code": 202}))

    def change_response(self) -> str:
        """Change the response of the route. Return its new status."""
        self.tenant.change(self.served, {"status_code": 201})
        return "201"

    def add_route(self) -> str:
        """Add a route, which the edge host tries afterwards. Return the status of its response."""
        route = {"match_type": "exact_path", "match": "/", "backend": {"backend_id": self.other}}
        self.tenant.create(f"/edges/https/{self.served.edge}/routes", route)
        return "202"


def measure(_setting: Setting) -> Result:
    """Load the names, and change some of them and names that are not loaded."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    loaded, cold = ([_Edge.create(f"{name}{number}") for number in range(_CHANGES)] for name in ("loaded", "cold"))
    copies = Accounts(_TABLE, _DOMAIN, prefix="e", create=create_edge)
    copies.add(_LOADED - _CHANGES)
    time.sleep(change_log.OVERLAP)  # a host that starts now does not try these edges, which would load their names
    with edge_host.running() as host:
        began = time.monotonic()
        host.load([*map(copies.find_name, range(copies.count)), *(edge.served.name for edge in loaded)])
        rows = [*_measure(host, loaded, cold)]
        if time.monotonic() > began + _NO_RESYNC:
            raise RuntimeError("Control may have read loaded accounts again: repeat this on a less busy machine.")
    return Result(rows)


def _measure(host: Host, loaded: list[_Edge], cold: list[_Edge]) -> Iterator[Row]:
    idle = _measure_idle(host)
    yield results.reported("control's CPU in an idle second: 10 ms", idle, _IDLE_CPU, results.ms)
    # the new route refers to a backend that was not read before
    for change_name, change, maximum in (
        ("response", _Edge.change_response, 1),
        ("route and its trial", _Edge.add_route, 2),
    ):
        before = _count_reads(host)
        times, more = _change(host, loaded, change, idle)
        named, reads = f"a loaded edge, a new {change_name}", (_count_reads(host) - before) / len(loaded)
        yield results.at_most(1, f"{named}: calls for records: {maximum}", reads, maximum, _number)
        yield results.at_most(1, f"{named}: live, median: {_USUAL:g} s", median(times), _USUAL, results.ms)
        yield results.at_most(1, f"{named}: live at most: {_LONGEST:g} s", max(times), _LONGEST, results.ms)
        yield results.at_most(1, f"{named}: control's CPU beside an idle one's: 5 ms", more, _MOST_CPU, results.ms)
    before = _count_reads(host)
    for edge in cold:
        edge.change_response()
    time.sleep(_LONGEST)
    reads = _count_reads(host) - before
    yield results.exactly(f"reads for {_CHANGES} new responses of edges that are not loaded", f"{reads}", "0", reads)


def _measure_idle(host: Host) -> float:
    """Return the CPU seconds of control in a second without a change."""
    cpu, began = host.control_cpu, time.perf_counter()
    time.sleep(_IDLE)
    return (host.control_cpu - cpu) / (time.perf_counter() - began)


def _change(host: Host, edges: list[_Edge], change: Callable[[_Edge], str], idle: float) -> tuple[list[float], float]:
    """Make one change after the other.

    Return the seconds until each is live, and the CPU seconds that one adds to those of an idle control.
    """
    times, cpu, start = list[float](), host.control_cpu, time.perf_counter()
    for number, edge in enumerate(edges, start=1):
        status, began = change(edge), time.perf_counter()
        edge_host.wait_until(partial(_answers, host, edge.served.name, status))
        times.append(time.perf_counter() - began)
        time.sleep(max(0.0, start + number * _PERIOD - time.perf_counter()))
    more = host.control_cpu - cpu - idle * (time.perf_counter() - start)
    return times, max(0.0, more) / len(edges)


def _count_reads(host: Host) -> int:
    calls = host.list_calls()
    return sum(calls.get(name, 0) for name in _READS)


def _number(count: float) -> str:
    return f"{count:.2f}"


def _answers(host: Host, name: str, status: str) -> bool:
    return host.visit(name) == status
