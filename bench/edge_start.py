"""Start of an edge host from the real store: the embedded cloud, read by the product's own code.

Each account has a certificate for its own names. Control starts, then Envoy, then the first visitor of the last edge
comes. The calls to the store are counted.
"""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench import engines, requests, results
from bench.engines import Setting
from bench.results import Result, Row
from chalicelib.operator import accounts
from edge.process import files, supervisor
from infra import ROOT, CommandError
from infra.deploy import data_stack
from infra.local import signals
from infra.local.cloud import HOST

COUNTS = (1000, 4000)  # edges
_EDGES_PER_ACCOUNT = 4
_MOST_CALLS, _MOST_SECONDS = 50, 3  # until control and Envoy are ready
_TIMEOUT, _STOP_TIMEOUT = 300, 10  # seconds for a start and for an end
_TABLE, _DOMAIN = "edge-start", "tunnels.localhost"
_CONTROL = (sys.executable, "-m", "bench.edge_start_control")
_ENVOY = next(ROOT.glob(".venv-edge/lib/python*/site-packages/envoy/_bin/envoy"), None)


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
    if _ENVOY is None:
        raise CommandError("The environment of the edge is missing: run 'make .venv-edge/ready'.")
    os.environ.update(TABLE_NAME=_TABLE, KEY_ID=f"alias/{_TABLE}", TUNNEL_DOMAIN=_DOMAIN)
    data_stack.deploy(_TABLE, {})
    starts: dict[int, Start] = {}
    for before, count in zip((0, *COUNTS), COUNTS, strict=False):
        for number in range(before // _EDGES_PER_ACCOUNT, count // _EDGES_PER_ACCOUNT):
            _create_account(number)
        starts[count] = _start(f"e{_EDGES_PER_ACCOUNT - 1}.a{count // _EDGES_PER_ACCOUNT - 1}.{_DOMAIN}")
    return Result([row for count, start in starts.items() for row in _rows(count, start)])


def _rows(count: int, start: Start) -> list[Row]:
    named = f"with {count:,} edges in the store"
    calls, seconds, ms, mib = _MOST_CALLS, _MOST_SECONDS, results.ms, results.mib
    return [
        results.at_most(1, f"control listens {named}: {seconds} s", start.listening, seconds, ms),
        results.at_most(1, f"store calls until it listens {named}: {calls}", start.calls_listening, calls, _number),
        results.at_most(1, f"Envoy is ready {named}: {seconds} s", start.ready, seconds, ms),
        results.reported(f"the first visitor of the last edge {named}: a second later", start.visited, 1, ms),
        results.reported(f"store calls until that visit {named}: {calls}", start.calls_visited, calls, _number),
        results.reported(f"memory of control {named}: 100 MiB", start.control, 100 << 20, mib),
        results.reported(f"memory of Envoy {named}: 100 MiB", start.envoy, 100 << 20, mib),
    ]


def _number(count: float) -> str:
    return f"{count:,.0f}"


def _create_account(number: int) -> None:
    """Create an account with a certificate, an answer, and edges that give it."""
    token = accounts.create_account(f"a{number}", "admin")[2]
    domain = f"a{number}.{_DOMAIN}"
    chain, key = _make_certificate(f"*.{domain}")
    requests.create("/tls_certificates", token, {"certificate_pem": chain, "private_key_pem": key})
    backend = requests.create("/backends/http_response", token, {"body": "hello"})["id"]
    for place in range(_EDGES_PER_ACCOUNT):
        edge = requests.create("/edges/https", token, {"hostports": [f"e{place}.{domain}:443"]})["id"]
        route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": backend}}
        requests.create(f"/edges/https/{edge}/routes", token, route)


def _make_certificate(name: str) -> tuple[str, str]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))
    made = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem).decode(), private.decode()


def _start(last: str) -> Start:
    """Start control and Envoy, and visit the last edge."""
    with TemporaryDirectory() as named, contextlib.ExitStack() as stack:
        folder, ports = Path(named), {it: engines.free_port() for it in ("EDGE_PORT", "HTTP_PORT", "SSH_PORT")}
        environment = {**os.environ, "EDGE_DIR": named, **{name: str(port) for name, port in ports.items()}}
        counts, began = folder / "calls.json", time.monotonic()
        control = stack.enter_context(
            _running(folder / "control.log", environment, *_CONTROL, str(counts), folder=ROOT)
        )
        _await(lambda: _is_listening(folder / "discovery.sock"))
        listening, calls_listening = time.monotonic() - began, _count(counts)
        envoy = stack.enter_context(
            _running(folder / "envoy.log", {}, str(_ENVOY), *supervisor.ENVOY_ARGUMENTS, folder=folder)
        )
        _await(lambda: _can_connect(ports["EDGE_PORT"]))
        ready, began = time.monotonic() - began, time.monotonic()
        _await(lambda: _visit(ports["EDGE_PORT"], last) == "200")
        visited = time.monotonic() - began
        time.sleep(0.2)  # until the counts are written
        memory = _memory(control.pid), _memory(envoy.pid)
        return Start(listening, calls_listening, ready, visited, _count(counts), *memory)


@contextlib.contextmanager
def _running(
    log: Path, environment: Mapping[str, str], *command: str, folder: Path
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


def _await(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds. Raises TimeoutError."""
    end = time.monotonic() + _TIMEOUT
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("The edge did not start.")
        time.sleep(0.01)


def _is_listening(file: Path) -> bool:
    with contextlib.suppress(OSError), files.shorten_socket_path(file) as path, socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return True
    return False


def _can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _visit(port: int, name: str) -> str:
    """Return the status of a GET over a new connection, or ""."""
    context = ssl._create_unverified_context()
    with (
        contextlib.suppress(OSError, IndexError),
        socket.create_connection((HOST, port), 5) as raw,
        context.wrap_socket(raw, server_hostname=name) as secure,
    ):
        secure.sendall(f"GET / HTTP/1.1\r\nhost: {name}\r\n\r\n".encode())
        return secure.recv(1000).decode().split(" ")[1]
    return ""


def _count(file: Path) -> int:
    return sum(json.loads(file.read_text()).values())


def _memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
