"""Times of starts and of changes of the live edge with many accounts.

A start ends with Envoy's first answer. After a change, connections are opened until it is live. Times and CPU are
medians of all changes.
"""

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from bench import engines, results, servers
from bench.edge import ENVOY, ENVOY_OPTIONS
from bench.engines import Setting
from bench.results import Result, Row
from infra.local.cloud import HOST

COUNTS, CHANGES = (100, 1000, 4000), 9
IDLE, SETTLING = 5, 20  # seconds of the idle measurement, and of the wait before it


@dataclass(frozen=True)
class Edge:
    """A control process with its Envoy. Their start took `encoded` CPU seconds and `started` seconds."""

    control: "subprocess.Popen[str]"
    envoy: psutil.Process
    port: int
    encoded: float
    started: float

    def change(self, command: str, number: int) -> None:
        """Make a change."""
        assert self.control.stdin
        self.control.stdin.write(f"{command} {number}\n")
        self.control.stdin.flush()

    def used(self) -> float:
        """Return the CPU seconds of control, without a request to it, which would cost a millisecond."""
        return time.clock_gettime(~self.control.pid << 3 | 2)  # Linux's id of the CPU clock of a process

    def certificate(self, name: str) -> bytes:
        """Return the certificate that is served for a name, or b""."""
        with contextlib.suppress(OSError), _connect(self.port, name) as secure:
            return secure.getpeercert(binary_form=True) or b""
        return b""

    def status(self, name: str) -> str:
        with contextlib.suppress(OSError, IndexError), _connect(self.port, name) as secure:
            secure.sendall(f"GET / HTTP/1.1\r\nhost: {name}\r\n\r\n".encode())
            return secure.recv(1000).decode().split(" ")[1]
        return ""


def measure(_setting: Setting) -> Result:
    return Result([row for count in COUNTS for row in _rows(count)])


def _rows(count: int) -> list[Row]:
    named = f"with {count:,} certificates and accounts"
    with TemporaryDirectory() as folder, _run(Path(folder), count) as edge:
        time.sleep(SETTLING)
        idle = _measure_idle(edge, IDLE)

        def uploaded(number: int) -> Callable[[], bool]:
            name = f"s{number}.tunnels.localhost"
            old = edge.certificate(name)
            edge.change("upload", number)
            return lambda: edge.certificate(name) not in (old, b"")

        def opened(number: int) -> Callable[[], bool]:
            edge.change("open", number)
            return lambda: edge.status(f"new{number}.tunnels.localhost") == "502"  # no server is behind it

        def beside_a_bad_one(number: int) -> Callable[[], bool]:
            edge.change("bad", 50 + number)
            return uploaded(20 + number)

        upload, by_upload = _measure_live(edge, uploaded)
        opening, by_opening = _measure_live(edge, opened)
        beside, _ = _measure_live(edge, beside_a_bad_one)
        return [
            results.at_most(1, f"start {named}: two seconds", edge.encoded + edge.started, 2, results.ms),
            results.at_most(1, f"an upload is live {named}: 0.7 s", upload, 0.7, results.ms),
            results.at_most(1, f"a tunnel is live {named}: 0.7 s", opening, 0.7, results.ms),
            results.at_most(1, f"an upload beside a bad one {named}: 0.7 s", beside, 0.7, results.ms),
            results.at_most(1, f"control's CPU for an upload {named}: 5 ms", by_upload, 0.005, results.ms),
            results.at_most(1, f"control's CPU for a tunnel {named}: 5 ms", by_opening, 0.005, results.ms),
            results.at_most(1, f"control's CPU in an idle second {named}: 10 ms", idle, 0.01, results.ms),
            results.reported(f"Envoy's memory {named}: 100 MiB", edge.envoy.memory_info().rss, 100 << 20, results.mib),
        ]


def _measure_live(edge: Edge, make: Callable[[int], Callable[[], bool]]) -> tuple[float, float]:
    """Return the seconds until a change is live, and control's additional CPU seconds."""
    times, costs = [], []
    for number in range(CHANGES):
        idle = _measure_idle(edge, 1)  # measured for each change, because it is higher just after the start
        before, began = edge.used(), time.perf_counter()
        is_live = make(number)
        while not is_live():
            time.sleep(0.005)
        times.append(time.perf_counter() - began)
        time.sleep(0.5)
        costs.append(edge.used() - before - idle * (time.perf_counter() - began))
    return median(times), median(costs)


def _measure_idle(edge: Edge, seconds: float) -> float:
    """Return the CPU seconds of control in a second without a change."""
    before, began = edge.used(), time.perf_counter()
    time.sleep(seconds)
    return (edge.used() - before) / (time.perf_counter() - began)


@contextlib.contextmanager
def _run(folder: Path, count: int) -> Iterator[Edge]:
    port, http_port = engines.free_port(), engines.free_port()
    command = [sys.executable, "-m", "bench.sites_server", str(folder), str(port), str(http_port), str(count)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as control:
        assert control.stdout
        encoded, began = float(control.stdout.readline()), time.perf_counter()
        started = ["env", "-i", "-C", str(folder), str(ENVOY), "-c", "bootstrap.json", *ENVOY_OPTIONS]
        with servers.running(started, port, os.environ) as envoy:
            edge = Edge(control, psutil.Process(envoy.pid), port, encoded, 0)
            while edge.status(f"s{count - 1}.tunnels.localhost") != "502":
                time.sleep(0.005)
            yield Edge(control, edge.envoy, port, encoded, time.perf_counter() - began)
        control.kill()


@contextlib.contextmanager
def _connect(port: int, name: str) -> Iterator[ssl.SSLSocket]:
    context = ssl._create_unverified_context()
    with socket.create_connection((HOST, port), 5) as raw, context.wrap_socket(raw, server_hostname=name) as secure:
        yield secure
