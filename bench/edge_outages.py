"""An edge host whose control is stopped for a minute, and whose store does not answer."""

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import edge_host, engines, results
from bench.edge_host import Host
from bench.engines import Setting
from bench.results import Result, Row
from bench.tenants import Served, Tenant
from infra.deploy import data_stack
from infra.local.cloud import OWN, Cloud

_TABLE, _DOMAIN = "edge-outages", "tunnels.localhost"
_LOADED, _COLD = 20, 60  # accounts with an edge each
_STOPPED, _AFTER = 60, 20  # seconds for which control is stopped; in which its calls are counted
_CHANGE = 12  # calls to the store for a change of one loaded account
_OUTAGES, _REFUSALS = 3, 10  # outages of the store; cold names that are visited in each
_PAUSE = 0.02  # seconds between visits
_OVERLAP = 65  # seconds after which a new host does not try an edge that was created


def measure(_setting: Setting) -> Result:
    """Stop control, and then the store, which no other figure uses."""
    with TemporaryDirectory() as folder, _run_cloud(Path(folder)) as cloud:
        os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
        data_stack.deploy(_TABLE, {})
        tenants = [Tenant(f"account-{number}", _DOMAIN) for number in range(_LOADED + _COLD)]
        edges = [tenant.serve(f"e{number}") for number, tenant in enumerate(tenants)]
        time.sleep(_OVERLAP)
        with edge_host.running() as host:
            host.load([edge.name for edge in edges[:_LOADED]])
            return Result([*_stop_control(host, tenants, edges), *_stop_store(host, cloud, edges)])


@contextmanager
def _run_cloud(folder: Path) -> Iterator[Cloud]:
    """Run a cloud, and use it in this process."""
    cloud = Cloud(folder, engines.free_port(), PERSIST_STATE="0")
    cloud.start()
    try:
        os.environ.update(cloud.settings)
        os.environ.pop(OWN)
        yield cloud
    finally:
        with suppress(ProcessLookupError):
            os.kill(cloud.pid, signal.SIGCONT)
        cloud.stop()


def _stop_control(host: Host, tenants: Sequence[Tenant], edges: Sequence[Served]) -> list[Row]:
    """Stop control for a minute, in which each edge changes. Count its calls to the store afterwards."""
    idle = _count_calls(host)
    os.kill(host.control, signal.SIGSTOP)
    began, statuses = time.monotonic(), list[str]()
    for tenant, served in zip(tenants, edges, strict=True):
        tenant.change(served, {"body": "changed"})
    while time.monotonic() < began + _STOPPED:
        statuses += _visit(host, edges[:_LOADED])
    os.kill(host.control, signal.SIGCONT)
    calls = _count_calls(host)
    bound = idle + _CHANGE * _LOADED
    return [
        _require_served(f"visits of loaded names while control is stopped for {_STOPPED} s", statuses),
        results.at_most(
            1, f"store calls after it: idle, and {_CHANGE} for a loaded account", calls, bound, results.number
        ),
        _require_served("loaded names after it", _visit(host, edges[:_LOADED])),
    ]


def _stop_store(host: Host, cloud: Cloud, edges: Sequence[Served]) -> list[Row]:
    """Stop the store several times, so that calls get no answer, and then end it, so that connections fail."""
    loaded, cold, statuses, times = edges[:_LOADED], iter(edges[_LOADED:]), list[str](), list[float]()
    for _ in range(_OUTAGES):
        os.kill(cloud.pid, signal.SIGSTOP)
        times += _measure_refusals(host, islice(cold, _REFUSALS))
        statuses += _visit(host, loaded)
        os.kill(cloud.pid, signal.SIGCONT)
        edge_host.wait_until(partial(_is_served, host, next(cold).name))
    os.kill(cloud.pid, signal.SIGKILL)
    times += _measure_refusals(host, islice(cold, _REFUSALS))
    statuses += _visit(host, loaded)
    return [
        _require_served("visits of loaded names while the store is away", statuses),
        results.at_most(1, "the slowest refusal of a cold name: 1 s", max(times), 1, results.ms),
    ]


def _measure_refusals(host: Host, cold: Iterable[Served]) -> Iterator[float]:
    """Yield the seconds until each name is refused. Raises RuntimeError if it is not."""
    for served in cold:
        began = time.monotonic()
        if status := host.visit(served.name):
            raise RuntimeError(f"{served.name} is not refused: {status}.")
        yield time.monotonic() - began


def _is_served(host: Host, name: str) -> bool:
    return host.visit(name) == "200"


def _visit(host: Host, edges: Sequence[Served]) -> list[str]:
    statuses = []
    for served in edges:
        statuses.append(host.visit(served.name))
        time.sleep(_PAUSE)
    return statuses


def _count_calls(host: Host) -> int:
    """Return the calls of control to the store in some seconds."""
    calls = host.count_calls()
    time.sleep(_AFTER)
    return host.count_calls() - calls


def _require_served(figure: str, statuses: Sequence[str]) -> Row:
    served = statuses.count("200")
    return results.exactly(figure, f"{served:,}", f"{len(statuses):,}", served / len(statuses))
