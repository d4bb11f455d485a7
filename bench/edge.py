"""The live edge: its gateway against OpenSSH's `sshd -R`, and the whole chain against Envoy alone, in one run.

Both gateways have the same client, upstream and load, by turns. What a server costs is counted in its own CPU, since on
a busy machine a rate says as much of the load.
"""

import asyncio
import contextlib
import getpass
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import asyncssh
import psutil

from bench import engines, results
from bench.engines import Setting
from bench.results import Point, Result
from infra import ROOT, CommandError

ROUNDS, SECONDS, CLIENTS = 3, 3.0, 16
TUNNELS, SIGN_INS = 1000, 50
LARGE = 16_000_000  # bytes
_DOMAIN = "tunnels.localhost"
_HOST = f"demo.{_DOMAIN}"
_ENVOY = next(ROOT.glob(".venv-edge/lib/python*/site-packages/envoy/_bin/envoy"), None)
_OPTIONS = ["-F", "none", "-N", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no"]


@dataclass(frozen=True)
class Ports:
    """Where everything listens."""

    upstream: int
    alone: int  # Envoy that leads straight to the upstream
    ssh: int
    edge: int
    http: int
    plain: int
    sshd: int
    sshd_tunnel: int


@dataclass(frozen=True)
class Measured:
    """The result of a load: units in a second, and the server's CPU seconds for a unit."""

    rate: float
    cpu: float


def measure(_setting: Setting) -> Result:
    if _ENVOY is None:
        raise CommandError("The figure of the edge needs its environment: make .venv-edge/ready.")
    with TemporaryDirectory() as named:
        folder, ports = Path(named), Ports(*(engines.free_port() for _ in range(8)))
        with _processes(folder, ports) as (gateway, sshd):
            rows = [
                *_against(gateway, sshd, ports),
                _sign_ins(folder, gateway, sshd, ports),
                _chain(ports),
                _first_answer(folder, ports),
                _memory(folder, gateway, sshd, ports),
            ]
            points = _points(ports)
    return Result([row for found in rows for row in (found if isinstance(found, list) else [found])], points)


def _against(gateway: int, sshd: int, ports: Ports) -> list[results.Row]:
    """Return the rows of what goes through an open tunnel, by rate and by CPU."""
    loads: Sequence[tuple[str, float, Callable[[int, float], float]]] = (
        ("keep-alive requests", 0.5, _kept),
        ("new channels", 0.3, _fresh),
        ("downloads", 0.5, _large),
    )
    rows = []
    for name, bound, load in loads:
        ours, theirs = _by_turns(
            lambda load=load: _measured(gateway, load, ports.plain),  # type: ignore[misc]
            lambda load=load: _measured(sshd, load, ports.sshd_tunnel),  # type: ignore[misc]
        )
        unit = _mb if load is _large else results.per_second
        rows.append(results.at_least(bound, f"{name} through the gateway: sshd -R", ours.rate, theirs.rate, unit))
        rows.append(results.at_least(bound, f"{name} in a second of CPU: sshd -R", 1 / ours.cpu, 1 / theirs.cpu, unit))
    return rows


def _sign_ins(folder: Path, gateway: int, sshd: int, ports: Ports) -> results.Row:
    def sign_in(port: int) -> Callable[[int, float], float]:
        return lambda _port, _seconds: SIGN_INS / asyncio.run(_signed_in(folder, port, SIGN_INS))

    ours, theirs = _by_turns(
        lambda: _measured(gateway, sign_in(ports.ssh), 0), lambda: _measured(sshd, sign_in(ports.sshd), 0)
    )
    return results.at_least(1, "sign-ins with a bind: sshd", ours.rate, theirs.rate, results.per_second)


def _chain(ports: Ports) -> results.Row:
    ours, alone = _by_turns(
        lambda: Measured(_kept(ports.edge, SECONDS, tls=True), 0),
        lambda: Measured(_kept(ports.alone, SECONDS, tls=True), 0),
    )
    return results.at_least(
        0.15, "requests through the whole edge: Envoy alone", ours.rate, alone.rate, results.per_second
    )


def _first_answer(folder: Path, ports: Ports) -> results.Row:
    """Return how long it takes from the start of an `ssh -R` until its address answers."""
    command = ["ssh", *_OPTIONS, "-i", folder / "key", "-p", ports.ssh, "-R", f"{{}}:80:127.0.0.1:{ports.upstream}"]
    times = []
    for number in range(5):
        began, host = time.perf_counter(), f"first{number}.{_DOMAIN}"
        with _running(*(str(part).format(f"first{number}") for part in command), "127.0.0.1"):
            _until(lambda host=host: _status(ports.edge, host) == 200, pause=0.01)  # type: ignore[misc]
            times.append(time.perf_counter() - began)
    return results.at_most(1, "from ssh's start to the first 200: a second", median(times), 1, results.ms)


def _status(port: int, host: str) -> int:
    """Return the status of a GET over a connection of its own."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection(("127.0.0.1", port), 5) as raw,
        context.wrap_socket(raw, server_hostname=host) as secure,
    ):
        secure.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        return int(secure.recv(1 << 16).split(b" ")[1])


def _points(ports: Ports) -> list[Point]:
    """Return the requests in a second by the number of clients, over connections that are kept."""
    lines = (
        ("the edge", ports.edge, True),
        ("raw: Envoy alone", ports.alone, True),
        ("the gateway", ports.plain, False),
        ("raw: sshd -R", ports.sshd_tunnel, False),
    )
    return [
        Point("edge", line, clients, _kept(port, 1.5, tls=tls, clients=clients))
        for clients in (1, 4, 16, 64)
        for line, port, tls in lines
    ]


def _memory(folder: Path, gateway: int, sshd: int, ports: Ports) -> results.Row:
    """Return what idle tunnels add to the memory of each server, each tunnel with a connection of its own."""
    ours, theirs = (asyncio.run(_idle(folder, port, pid)) for port, pid in ((ports.ssh, gateway), (ports.sshd, sshd)))
    return results.at_most(0.05, f"memory of {TUNNELS:,} idle tunnels: sshd", ours, theirs, results.mib)


async def _idle(folder: Path, port: int, pid: int) -> int:
    before = _resident(pid)
    clients = [await _bound(folder, port, f"idle{number}") for number in range(TUNNELS)]
    added = _resident(pid) - before
    for client in clients:
        client.abort()
    await asyncio.sleep(1)
    return added


async def _signed_in(folder: Path, port: int, count: int) -> float:
    """Return the seconds that so many sign-ins take, each with a bind, one after the other."""
    began = time.perf_counter()
    for number in range(count):
        (await _bound(folder, port, f"in{number}")).abort()
    return time.perf_counter() - began


async def _bound(folder: Path, port: int, name: str) -> asyncssh.SSHClientConnection:
    client = await asyncssh.connect(
        "127.0.0.1", port, client_keys=[str(folder / "key")], known_hosts=None, config=None, username=_user()
    )
    host, bound = (name, 80) if port != _sshd_port else ("127.0.0.1", 0)
    await client.create_server(lambda *_: asyncssh.SSHTCPSession(), host, bound)
    return client


_sshd_port = 0


def _by_turns(ours: Callable[[], Measured], theirs: Callable[[], Measured]) -> tuple[Measured, Measured]:
    rounds = [(ours(), theirs()) for _ in range(ROUNDS)]
    mine, others = zip(*rounds, strict=True)
    return _middle(mine), _middle(others)


def _middle(found: Sequence[Measured]) -> Measured:
    return Measured(median(each.rate for each in found), median(each.cpu for each in found))


def _measured(pid: int, load: Callable[[int, float], float], port: int) -> Measured:
    before = _cpu(pid)
    began = time.perf_counter()
    rate = load(port, SECONDS)
    units = rate * (time.perf_counter() - began)
    return Measured(rate, (_cpu(pid) - before) / units)


def _family(pid: int) -> list[psutil.Process]:
    """Return a process and what it started: sshd has one for each connection."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a server, those of its ended children too."""
    total = 0.0
    for process in _family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
            if process.pid == pid:
                total += times.children_user + times.children_system
    return total


def _resident(pid: int) -> int:
    return sum(process.memory_full_info().uss for process in _family(pid))


def _kept(port: int, seconds: float, *, tls: bool = False, clients: int = CLIENTS) -> float:
    """Return the requests in a second over connections that are kept."""
    context = ssl._create_unverified_context() if tls else None

    def one(until: float) -> int:
        count = 0
        with socket.create_connection(("127.0.0.1", port), 30) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = context.wrap_socket(raw, server_hostname=_HOST) if context else raw
            while time.perf_counter() < until:
                _ask(connection, "/")
                count += 1
        return count

    return _together(one, seconds, clients)


def _fresh(port: int, seconds: float) -> float:
    """Return the requests in a second, each over a connection of its own."""

    def one(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                _ask(connection, "/")
            count += 1
        return count

    return _together(one, seconds)


def _large(port: int, seconds: float) -> float:
    """Return the bytes in a second of large bodies."""

    def one(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                count += _ask(connection, "/large")
        return count

    return _together(one, seconds, clients=4)


def _together(one: Callable[[float], int], seconds: float, clients: int = CLIENTS) -> float:
    counts: list[int] = []
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=lambda: counts.append(one(until))) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def _ask(connection: socket.socket, path: str) -> int:
    """Return the bytes of the body that a GET is answered with."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {_HOST}\r\n\r\n".encode())
    data = connection.recv(1 << 18)
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 18)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    left = length - len(body)
    while left:
        left -= len(connection.recv(min(left, 1 << 18)))
    return length


@contextlib.contextmanager
def _processes(folder: Path, ports: Ports) -> Iterator[tuple[int, int]]:
    """Run the upstream, both gateways with a client each, and both Envoys; the process ids of the gateways."""
    global _sshd_port
    _sshd_port = ports.sshd
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "large").write_bytes(bytes(LARGE))
    (folder / "upstream.json").write_text(json.dumps(_upstream(folder, ports)))
    (folder / "sshd_config").write_text(_sshd_config(folder, ports))
    with contextlib.ExitStack() as stack:

        def run(*command: object) -> "subprocess.Popen[bytes]":
            return stack.enter_context(_running(*map(str, command)))

        run(_ENVOY, "-c", folder / "upstream.json", "--disable-hot-restart", "-l", "error", "--concurrency", "1")
        served = (ports.ssh, ports.edge, ports.http, ports.plain)
        gateway = run(sys.executable, "-m", "bench.edge_server", folder, *served)
        os.makedirs("/run/sshd", exist_ok=True)
        sshd = run("/usr/sbin/sshd", "-D", "-f", folder / "sshd_config", "-E", folder / "sshd.log")
        _await(ports.ssh, ports.sshd, ports.upstream, ports.alone)
        command = ["ssh", *_OPTIONS, "-i", folder / "key"]
        run(*command, "-p", ports.ssh, "-R", f"demo:80:127.0.0.1:{ports.upstream}", "127.0.0.1")
        theirs = f"{ports.sshd_tunnel}:127.0.0.1:{ports.upstream}"
        run(*command, "-p", ports.sshd, "-R", theirs, f"{_user()}@127.0.0.1")
        run(
            "env",
            "-C",
            folder,
            _ENVOY,
            "-c",
            "bootstrap.json",
            "--disable-hot-restart",
            "-l",
            "error",
            "--concurrency",
            "1",
        )
        _await(ports.edge, ports.sshd_tunnel)
        _until(lambda: _answers(ports.plain, tls=False) and _answers(ports.edge, tls=True))
        yield gateway.pid, sshd.pid


@contextlib.contextmanager
def _running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def _upstream(folder: Path, ports: Ports) -> object:
    """Return the Envoy that answers by itself, plain for the tunnels and with TLS to be compared with."""
    name = "type.googleapis.com/envoy.extensions"
    answers = [
        {"match": {"path": "/large"}, "direct_response": {"status": 200, "body": {"filename": str(folder / "large")}}},
        {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello\n"}}},
    ]
    hosts = [{"name": "all", "domains": ["*"], "routes": answers}]
    router = {"name": "router", "typed_config": {"@type": f"{name}.filters.http.router.v3.Router"}}
    manager = {
        "@type": f"{name}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "upstream",
        "http_filters": [router],
        "route_config": {"max_direct_response_body_size_bytes": LARGE, "virtual_hosts": hosts},
    }
    passing = {**manager, "route_config": {"virtual_hosts": [{**hosts[0], "routes": [_TO_UPSTREAM]}]}}
    made = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*request, "-subj", "/CN=x", *made], check=True, capture_output=True)
    files = {
        "certificate_chain": {"filename": str(folder / "tls.crt")},
        "private_key": {"filename": str(folder / "tls.key")},
    }
    tls = {
        "name": "tls",
        "typed_config": {
            "@type": f"{name}.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {"tls_certificates": [files]},
        },
    }
    cluster = {
        "name": "upstream",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "upstream",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(ports.upstream)}}]}],
        },
    }
    listeners = [
        {
            "address": _address(ports.upstream),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        },
        {
            "address": _address(ports.alone),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": passing}], "transport_socket": tls}],
        },
    ]
    return {"static_resources": {"listeners": listeners, "clusters": [cluster]}}


def _sshd_config(folder: Path, ports: Ports) -> str:
    lines = {
        "ListenAddress": "127.0.0.1",
        "Port": ports.sshd,
        "HostKey": folder / "host",
        "PidFile": "none",
        "AuthorizedKeysFile": folder / "key.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "MaxStartups": "1000",
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


_TO_UPSTREAM = {"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}


def _address(port: int) -> object:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _user() -> str:
    return getpass.getuser()


def _await(*ports: int) -> None:
    for port in ports:
        _until(lambda port=port: engines.listens(port))  # type: ignore[misc]


def _until(true: Callable[[], bool], *, pause: float = 0.1) -> None:
    end = time.monotonic() + 60
    while not true():
        if time.monotonic() > end:
            raise RuntimeError("The edge or what it is compared with does not answer.")
        time.sleep(pause)


def _answers(port: int, *, tls: bool) -> bool:
    try:
        return _kept(port, 0.05, tls=tls) > 0
    except (OSError, ValueError):
        return False


def _mb(rate: float) -> str:
    return f"{rate / 1e6:.0f} MB/s"
