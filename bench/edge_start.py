"""Start of an edge host from the real store: the embedded cloud, read by the product's own code.

Each account has a certificate for its own names. Control starts, then Envoy, then the first visitor of the last edge
comes. The calls to the store are counted.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from bench import edge_host, engines, requests, results
from bench.edge_certificates import make_certificate
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib.operator import accounts
from infra import ROOT
from infra.deploy import data_stack

COUNTS = (1000, 4000)  # edges
_EDGES_PER_ACCOUNT = 4
_MOST_CALLS, _MOST_SECONDS = 50, 3  # until control and Envoy are ready
_STARTS, _LOOPS = 5, 4
_LOOP = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
_EDGE = (str(ROOT / ".venv-edge" / "bin" / "python"), "-m", "edge")
_TABLE, _DOMAIN = "edge-start", "tunnels.localhost"


@dataclass(frozen=True)
class Start:
    """A start: seconds and calls until control listens, until Envoy is ready, and until the first visitor is served."""

    listening: float
    calls_listening: int
    ready: float
    visited: float
    calls_visited: int
    control: float  # bytes of memory
    envoy: float


def measure(_setting: Setting) -> Result:
    """Measure starts with several numbers of edges in one store."""
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    starts: dict[int, Start] = {}
    for before, count in zip((0, *COUNTS), COUNTS, strict=False):
        for number in range(before // _EDGES_PER_ACCOUNT, count // _EDGES_PER_ACCOUNT):
            _create_account(number)
        starts[count] = _start(f"e{_EDGES_PER_ACCOUNT - 1}.a{count // _EDGES_PER_ACCOUNT - 1}.{_DOMAIN}")
    rows = [row for count, start in starts.items() for row in _rows(count, start)]
    return Result([*rows, _start_beside_loops(COUNTS[-1])])


def _rows(count: int, start: Start) -> list[Row]:
    named = f"with {count:,} edges in the store"
    calls, seconds, ms, mib = _MOST_CALLS, _MOST_SECONDS, results.ms, results.mib
    return [
        results.at_most(1, f"control listens {named}: {seconds} s", start.listening, seconds, ms),
        results.at_most(
            1, f"store calls until it listens {named}: {calls}", start.calls_listening, calls, results.number
        ),
        results.at_most(1, f"Envoy is ready {named}: {seconds} s", start.ready, seconds, ms),
        results.reported(f"the first visitor of the last edge {named}: a second later", start.visited, 1, ms),
        results.reported(f"store calls until that visit {named}: {calls}", start.calls_visited, calls, results.number),
        results.reported(f"memory of control {named}: 100 MiB", start.control, 100 << 20, mib),
        results.reported(f"memory of Envoy {named}: 100 MiB", start.envoy, 100 << 20, mib),
    ]


def _create_account(number: int) -> None:
    """Create an account with a certificate, an HTTP response, and edges that answer with it."""
    token = accounts.create_account(f"a{number}", "admin")[2]
    domain = f"a{number}.{_DOMAIN}"
    chain, key = make_certificate(f"*.{domain}")
    requests.create("/tls_certificates", token, {"certificate_pem": chain, "private_key_pem": key})
    backend = requests.create("/backends/http_response", token, {"body": "hello"})["id"]
    for index in range(_EDGES_PER_ACCOUNT):
        edge = requests.create("/edges/https", token, {"hostports": [f"e{index}.{domain}:443"]})["id"]
        route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend}}
        requests.create(f"/edges/https/{edge}/routes", token, route)


def _start(last: str) -> Start:
    """Start control and Envoy, and visit the last edge."""
    with edge_host.running() as host:
        began = time.monotonic()
        edge_host.wait_until(lambda: host.visit(last) == "200")
        visited = time.monotonic() - began
        calls = host.count_calls()
        memory = host.control_memory, host.envoy_memory
        return Start(host.listening, host.calls_listening, host.ready, visited, calls, *memory)


def _start_beside_loops(count: int) -> Row:
    """Start all processes of an edge several times, as `make edge` does, while busy loops run."""
    loops = [subprocess.Popen((sys.executable, "-c", _LOOP)) for _ in range(_LOOPS)]
    try:
        started = sum(_is_started() for _ in range(_STARTS))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    figure = f"starts of make edge beside {_LOOPS} busy loops with {count:,} edges in the store"
    return results.exactly(figure, str(started), str(_STARTS), started / _STARTS)


def _is_started() -> bool:
    """Start the edge, stop it again, and return whether it had started."""
    ports = {name: str(engines.free_port()) for name in ("EDGE_PORT", "HTTP_PORT", "SSH_PORT", "METRICS_PORT")}
    with TemporaryDirectory() as folder:
        environment = {**os.environ, **ports, "EDGE_DIR": folder}
        with subprocess.Popen(_EDGE, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as edge:
            assert edge.stdout
            is_started = any("curl " in line for line in edge.stdout)  # the last line of a start
            edge.send_signal(signal.SIGINT)
        return is_started
