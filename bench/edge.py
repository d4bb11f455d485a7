"""The live edge compared with OpenSSH's `sshd -R` and with Envoy alone.

Both gateways get the same client, upstream and load in turn. The cost of a server is its CPU time, because on a busy
machine a rate also depends on other load.
"""

import asyncio
import contextlib
import getpass
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import asyncssh
import psutil

from bench import engines, load, results, servers, side_by_side
from bench.engines import Setting
from bench.results import Point, Result, Row, Unit
from infra import ROOT, CommandError
from infra.local.cloud import HOST

ROUNDS, SECONDS, CLIENTS = 3, 2, 16
TUNNELS, AT_ONCE, SIGN_INS = 400, 8, 20
LARGE, DOWNLOADS = 16_000_000, 32  # bytes
_DOMAIN = "tunnels.localhost"
_DEMO = {"Host": f"demo.{_DOMAIN}"}
_THREADS = 4  # of the load; one thread would send requests in bursts, which cost a server less
ENVOY = next(ROOT.glob(".venv-edge/lib/python*/site-packages/envoy/_bin/envoy"), None)
ENVOY_OPTIONS = ["--disable-hot-restart", "-l", "error", "--concurrency", "1"]
_SSH = ["ssh", "-F", "none", "-N", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no"]
_SSHD_CONFIG = """
ListenAddress 127.0.0.1
Port $sshd
HostKey $folder/host
PidFile none
AuthorizedKeysFile $folder/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
MaxStartups 1000
"""


@dataclass(frozen=True)
class Ports:
    """The ports of all servers."""

    upstream: int
    alone: int  # Envoy without the rest of the edge
    ssh: int
    edge: int
    http: int
    plain: int
    tcp: int
    secure: int  # the upstream with TLS
    sshd: int
    sshd_tunnel: int
    sshd_secure: int


@dataclass(frozen=True)
class Route:
    """A route to the upstream: its URL and the processes to measure."""

    url: str
    pids: tuple[int, ...]


@dataclass(frozen=True)
class Gateway:
    """An SSH server: its process, its port, and the routes through its tunnels.

    `bind` returns the address of a further tunnel.
    """

    pid: int
    ssh: int
    tunnel: Route
    tcp: Route
    passed: Route
    bind: Callable[[str], tuple[str, int]]


def measure(_setting: Setting) -> Result:
    if ENVOY is None:
        raise CommandError("The environment of the edge is missing: run 'make .venv-edge/ready'.")
    with TemporaryDirectory() as named:
        folder, ports = Path(named), Ports(*(engines.free_port() for _ in range(11)))
        with _start(folder, ports) as (ours, sshd):
            tunnels, tcp, passed = (ours.tunnel, sshd.tunnel), (ours.tcp, sshd.tcp), (ours.passed, sshd.passed)
            rows = [
                *_compare_rates("keep-alive requests through the gateway", 0.5, tunnels, _send_persistent),
                *_compare_rates("new channels through the gateway", 0.3, tunnels, _send_reconnecting),
                *_compare_rates("downloads through the gateway", 0.5, tunnels, _download, LARGE, _mb),
                *_compare_rates("downloads through a port", 0.8, tcp, _download, LARGE, _mb),
                *_compare_rates("downloads of TLS passed through", 0.8, passed, _download, LARGE, _mb),
                _sign_ins(folder, ours, sshd),
                _chain(ports),
                _first_answer(folder, ports),
                _memory(folder, ours, sshd),
            ]
            return Result(rows, _points(ports))


def _compare_rates(
    name: str,
    bound: float,
    routes: tuple[Route, Route],
    send: Callable[[str], tuple[int, float]],
    size: int = 1,
    unit: Unit = results.per_second,
) -> list[Row]:
    """Compare the rate and CPU of requests by our route and sshd's. Each request has `size` units."""

    def measure_route(route: Route) -> tuple[float, float]:
        before = sum(map(_cpu, route.pids))
        count, seconds = send(route.url)
        return size * count / seconds, size * count / (sum(map(_cpu, route.pids)) - before)

    rounds = [[figure for route in routes for figure in measure_route(route)] for _ in range(ROUNDS)]
    rate, by_cpu, their_rate, their_by_cpu = (median(samples) for samples in zip(*rounds, strict=True))
    return [
        results.at_least(bound, f"{name}: sshd -R", rate, their_rate, unit),
        results.at_least(bound, f"{name} in a second of CPU: sshd -R", by_cpu, their_by_cpu, unit),
    ]


def _sign_ins(folder: Path, ours: Gateway, sshd: Gateway) -> Row:
    """Compare sequential sign-ins per second, each with a bind."""

    async def sign_in(gateway: Gateway) -> float:
        began = time.perf_counter()
        for number in range(SIGN_INS):
            (await _bind(folder, gateway, f"in{number}")).abort()
        return SIGN_INS / (time.perf_counter() - began)

    actions = [lambda gateway=gateway: asyncio.run(sign_in(gateway)) for gateway in (ours, sshd)]
    rate, theirs = side_by_side.medians_of(actions, ROUNDS)
    return results.at_least(1, "sign-ins with a bind: sshd", rate, theirs, results.per_second)


def _chain(ports: Ports) -> Row:
    actions = [partial(_rate, f"https://{HOST}:{port}", CLIENTS, SECONDS) for port in (ports.edge, ports.alone)]
    rate, alone = side_by_side.medians_of(actions, ROUNDS)
    return results.at_least(0.15, "requests through the whole edge: Envoy alone", rate, alone, results.per_second)


def _first_answer(folder: Path, ports: Ports) -> Row:
    """Measure the time from the start of `ssh -R` to the first answer at its address."""
    times = []
    for number in range(5):
        name, began = f"first{number}", time.perf_counter()
        with _client(folder, ports.ssh, f"{name}:80:{HOST}:{ports.upstream}"):
            _await_answer(ports.edge, f"{name}.{_DOMAIN}")
            times.append(time.perf_counter() - began)
    return results.at_most(1, "from ssh's start to the first 200: a second", median(times), 1, results.ms)


def _memory(folder: Path, ours: Gateway, sshd: Gateway) -> Row:
    """Compare the memory of idle tunnels, each with its own connection."""
    added, theirs = (asyncio.run(_idle(folder, gateway)) for gateway in (ours, sshd))
    return results.at_most(0.05, f"memory of {TUNNELS:,} idle tunnels: sshd", added, theirs, results.mib)


async def _idle(folder: Path, gateway: Gateway) -> int:
    before = _measure_resident(gateway.pid)
    clients = []
    for first in range(0, TUNNELS, AT_ONCE):
        names = (f"idle{number}" for number in range(first, first + AT_ONCE))
        clients += await asyncio.gather(*(_bind(folder, gateway, name) for name in names))
    added = _measure_resident(gateway.pid) - before
    for client in clients:
        client.abort()
    await asyncio.sleep(1)
    return added


def _points(ports: Ports) -> list[Point]:
    """Return requests per second by number of clients, over persistent connections."""
    lines = {
        "the edge": f"https://{HOST}:{ports.edge}",
        "raw: Envoy alone": f"https://{HOST}:{ports.alone}",
        "the gateway": f"http://{HOST}:{ports.plain}",
        "raw: sshd -R": f"http://{HOST}:{ports.sshd_tunnel}",
    }
    return [
        Point("edge", line, clients, _rate(url, clients, seconds=2))
        for clients in (1, 8, 64)
        for line, url in lines.items()
    ]


def _rate(url: str, clients: int, seconds: int) -> float:
    count, taken = _send_persistent(url, clients, seconds)
    return count / taken


def _send_persistent(url: str, clients: int = CLIENTS, seconds: int = SECONDS) -> tuple[int, float]:
    return load.measure_persistent(url, path="/", headers=_DEMO, clients=clients, seconds=seconds, threads=_THREADS)


def _send_reconnecting(url: str) -> tuple[int, float]:
    base: dict[str, Any] = {"path": "/", "headers": _DEMO, "clients": CLIENTS, "seconds": SECONDS}
    return load.measure(url, **base, reconnect=True, threads=_THREADS)


def _download(url: str) -> tuple[int, float]:
    return load.measure_downloads(url, path="/large", clients=4, count=DOWNLOADS)


async def _bind(folder: Path, gateway: Gateway, name: str) -> asyncssh.SSHClientConnection:
    """Sign in and bind a further tunnel. Return the client."""
    keys = [str(folder / "key")]
    client = await asyncssh.connect(
        HOST, gateway.ssh, client_keys=keys, known_hosts=None, config=None, username=getpass.getuser()
    )
    await client.create_server(lambda *_: asyncssh.SSHTCPSession(), *gateway.bind(name))
    return client


def _list_processes(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants: sshd has one for each connection."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a server, including its ended children."""
    total = 0.0
    for process in _list_processes(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
            if process.pid == pid:
                total += times.children_user + times.children_system
    return total


def _measure_resident(pid: int) -> int:
    return sum(process.memory_full_info().uss for process in _list_processes(pid))


def write_upstream(folder: Path, upstream: int, alone: int, secure: int) -> Path:
    """Write the configuration of the Envoy that answers, for three ports. Return its file."""
    certificate = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    options = ["-subj", "/CN=x", "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*certificate, *options], check=True, capture_output=True)
    (folder / "large").write_bytes(bytes(LARGE))
    text = Template((ROOT / "bench" / "upstream.yaml").read_text())
    ports = {"upstream": upstream, "alone": alone, "secure": secure}
    (file := folder / "upstream.yaml").write_text(text.substitute(ports, folder=folder, large=LARGE))
    return file


@contextlib.contextmanager
def _start(folder: Path, ports: Ports) -> Iterator[tuple[Gateway, Gateway]]:
    """Run the upstream, both gateways with a client each, and the edge's Envoy."""
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    write_upstream(folder, ports.upstream, ports.alone, ports.secure)
    (folder / "sshd_config").write_text(Template(_SSHD_CONFIG).substitute(asdict(ports), folder=folder))
    os.makedirs("/run/sshd", exist_ok=True)
    with contextlib.ExitStack() as stack:

        def run(port: int, *command: object) -> int:
            return stack.enter_context(servers.running([*map(str, command)], port, os.environ)).pid

        def client(port: int, *forwarded: str) -> None:
            stack.enter_context(_client(folder, port, *forwarded))

        run(ports.upstream, ENVOY, "-c", folder / "upstream.yaml", *ENVOY_OPTIONS)
        listening = (ports.ssh, ports.edge, ports.http, ports.plain, ports.tcp)
        gateway = run(ports.ssh, sys.executable, "-m", "bench.edge_server", folder, *listening)
        sshd = run(ports.sshd, "/usr/sbin/sshd", "-D", "-f", folder / "sshd_config", "-E", folder / "sshd.log")
        to, secure = f"{HOST}:{ports.upstream}", f"{HOST}:{ports.secure}"
        client(ports.ssh, f"passed:443:{secure}", f"{ports.tcp}:{to}")
        client(ports.sshd, f"{ports.sshd_tunnel}:{to}", f"{ports.sshd_secure}:{secure}")
        envoy = run(ports.edge, "env", "-C", folder, ENVOY, "-c", "bootstrap.json", *ENVOY_OPTIONS)
        for port in (ports.sshd_tunnel, ports.sshd_secure, ports.tcp):
            engines.await_port(port)
        client(ports.ssh, f"demo:80:{to}")
        _await_answer(ports.edge, _DEMO["Host"])
        yield _ours(ports, gateway, envoy), _sshd(ports, sshd)


def _ours(ports: Ports, gateway: int, envoy: int) -> Gateway:
    tcp, passed = f"http://{HOST}:{ports.tcp}", f"https://passed.{_DOMAIN}:{ports.edge}"
    both, tunnel = (gateway, envoy), Route(f"http://{HOST}:{ports.plain}", (gateway,))
    return Gateway(gateway, ports.ssh, tunnel, Route(tcp, both), Route(passed, both), lambda name: (name, 80))


def _sshd(ports: Ports, sshd: int) -> Gateway:
    tunnel = Route(f"http://{HOST}:{ports.sshd_tunnel}", (sshd,))
    passed = Route(f"https://passed.{_DOMAIN}:{ports.sshd_secure}", (sshd,))
    return Gateway(sshd, ports.sshd, tunnel, tunnel, passed, lambda _: (HOST, 0))


def _client(folder: Path, port: int, *forwarded: str) -> contextlib.AbstractContextManager[object]:
    """Run `ssh -R` to a running server."""
    options = ["-i", str(folder / "key"), "-p", str(port), *(f"-R{forwarding}" for forwarding in forwarded)]
    return servers.running([*_SSH, *options, f"{getpass.getuser()}@{HOST}"], port, os.environ)


def _await_answer(port: int, host: str) -> None:
    """Wait until a GET gets a 200. Raises TimeoutError after a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if _status(port, host) == 200:
                return
        time.sleep(0.01)
    raise TimeoutError(f"{host} does not answer.")


def _status(port: int, host: str) -> int:
    """Return the status of a GET over a new connection."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection((HOST, port), 5) as raw,
        context.wrap_socket(raw, server_hostname=host) as secure,
    ):
        secure.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        return int(secure.recv(1 << 16).split(b" ")[1])


def _mb(rate: float) -> str:
    return f"{rate / 1e6:.0f} MB/s"
