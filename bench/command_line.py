"""The command line `te http` compared with `ssh -R`, through a whole edge beside the server of `make run`."""

import contextlib
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from bench import edge, engines, load, requests, results, servers
from bench.engines import Setting
from bench.results import Result, Row
from infra import ROOT, CommandError
from infra.build import cli
from infra.local.cloud import HOST

ROUNDS, SECONDS, CLIENTS = 5, 3, 8
STARTS = 9
FULL_BODY, FULL_COUNT, FULL_MEMORY = 256 * 1024, 520, 160 * 2**20
_DOMAIN = "tunnels.localhost"
_SSH = ["ssh", "-F", "none", "-tt", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no"]


@dataclass(frozen=True)
class Machine:
    """The programs of a user, and the addresses to which they connect."""

    te: Path
    folder: Path
    environment: Mapping[str, str]
    ssh: int
    edge: int
    upstream: int

    def command(self, client: str, name: str) -> list[str]:
        """Return the command that opens a tunnel with `ssh`, `te`, or the `inspector` of te."""
        if client == "ssh":
            options = ["-i", str(self.folder / "key"), "-p", str(self.ssh)]
            return [*_SSH, *options, "-R", f"{name}:80:{HOST}:{self.upstream}", HOST]
        command = [str(self.te), "http", f"{HOST}:{self.upstream}", "--name", name]
        return command if client == "inspector" else [*command, "--no-inspect"]


def measure(setting: Setting) -> Result:
    if edge.ENVOY is None or not (ROOT / ".venv-cli").exists():
        raise CommandError("An environment is missing: run 'make .venv-edge/ready .venv-cli/ready'.")
    with TemporaryDirectory() as named, _start(Path(named), setting) as machine:
        return Result([*_requests(machine), _first_answer(machine), _memory(machine)])


def _requests(machine: Machine) -> list[Row]:
    """Compare the rate, and the CPU of the client for each request."""
    clients = ("ssh", "te", "inspector")
    rates: dict[str, list[float]] = {client: [] for client in clients}
    costs: dict[str, list[float]] = {client: [] for client in clients}
    with contextlib.ExitStack() as stack:
        pids = {client: stack.enter_context(_open(machine, client, f"rate-{client}")) for client in clients}
        for _ in range(ROUNDS):
            for client, pid in pids.items():
                before = _cpu(pid)
                count, seconds = _send(machine, f"rate-{client}")
                rates[client].append(count / seconds)
                costs[client].append((_cpu(pid) - before) / count)
    rate, cost = ({client: median(figures[client]) for client in clients} for figures in (rates, costs))
    per_second, us = results.per_second, results.us
    return [
        results.at_least(0.5, "requests through te: ssh -R", rate["te"], rate["ssh"], per_second),
        results.at_least(
            0.45, "requests through te with inspector: ssh -R", rate["inspector"], rate["ssh"], per_second
        ),
        results.at_most(3.5, "CPU of te for a request: ssh -R", cost["te"], cost["ssh"], us),
        results.at_most(8, "CPU of te with inspector for a request: ssh -R", cost["inspector"], cost["ssh"], us),
    ]


def _first_answer(machine: Machine) -> Row:
    """Compare the time from the start of a program to the first answer at its address."""
    times: dict[str, list[float]] = {"ssh": [], "inspector": []}
    for number in range(STARTS):
        for client, taken in times.items():
            began = time.perf_counter()
            with _open(machine, client, f"first{number}-{client}"):
                taken.append(time.perf_counter() - began)
    ours, theirs = median(times["inspector"]), median(times["ssh"])
    return results.at_most(2.5, "from the start of te http to the first 200: ssh -R", ours, theirs, results.ms)


def _memory(machine: Machine) -> Row:
    """Return the memory of te after more exchanges than it records, with bodies of the largest recorded size."""
    name, body = "full", bytes(FULL_BODY)
    with _open(machine, "inspector", name) as pid:
        connection = HTTPSConnection(HOST, machine.edge, context=ssl._create_unverified_context(), timeout=30)
        connection.sock = _connect(machine, name)
        for _ in range(FULL_COUNT):
            connection.request("POST", "/", body, {"Host": f"{name}.{_DOMAIN}"})
            connection.getresponse().read()
        connection.close()
        resident = psutil.Process(pid).memory_info().rss
    return results.at_most(1, "memory of te with all that it records: 160 MiB", resident, FULL_MEMORY, results.mib)


@contextlib.contextmanager
def _open(machine: Machine, client: str, name: str) -> Iterator[int]:
    """Run a client, and wait until its address answers. Return its process."""
    process = subprocess.Popen(
        machine.command(client, name),
        env=machine.environment,
        cwd=machine.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        while name not in (line := process.stdout.readline()):
            if not line:
                raise RuntimeError(f"{client} has opened no tunnel.")
        _await_answer(machine, name)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _await_answer(machine: Machine, name: str) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError, IndexError), _connect(machine, name) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nhost: {name}.{_DOMAIN}\r\n\r\n".encode())
            if connection.recv(1000).split(b" ")[1] == b"200":
                return
        time.sleep(0.005)
    raise TimeoutError(f"{name} does not answer.")


def _connect(machine: Machine, name: str) -> ssl.SSLSocket:
    raw = socket.create_connection((HOST, machine.edge), 5)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ssl._create_unverified_context().wrap_socket(raw, server_hostname=f"{name}.{_DOMAIN}")


def _send(machine: Machine, name: str) -> tuple[int, float]:
    url = f"https://{HOST}:{machine.edge}"
    headers = {"Host": f"{name}.{_DOMAIN}"}
    return load.measure_persistent(url, path="/", headers=headers, clients=CLIENTS, seconds=SECONDS, threads=2)


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def _start(folder: Path, setting: Setting) -> Iterator[Machine]:
    """Run the API, an edge, an upstream, and a user who has signed in. Their profile names an authority."""
    ports = {name: engines.free_port() for name in ("SSH_PORT", "EDGE_PORT", "HTTP_PORT", "METRICS_PORT")}
    upstream, alone, secure = (engines.free_port() for _ in range(3))
    limits = {"MAX_REQUESTS_PER_VISITOR": "1000000", "MAX_SIGN_INS_PER_ADDRESS": "1000"}
    texts = {name: str(port) for name, port in ports.items()}
    os.environ.update(texts, **limits, TUNNEL_DOMAIN=_DOMAIN, LOCAL_DIR=str(folder))
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    requests.create("/ssh_credentials", setting.token, {"public_key": key.with_suffix(".pub").read_text()})
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    answering = [str(edge.ENVOY), "-c", str(edge.write_upstream(folder, upstream, alone, secure)), *edge.ENVOY_OPTIONS]
    serving = [str(ROOT / ".venv-edge" / "bin" / "python"), "-m", "edge"]
    with (
        servers.ours() as api,
        servers.running(answering, upstream, os.environ),
        servers.running(serving, ports["SSH_PORT"], os.environ),
    ):
        engines.await_port(ports["EDGE_PORT"])
        te = cli.install(cli.build_wheel(folder), folder / "environment")
        environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        subprocess.run(
            [te, "login", api.url, "--key"], input=setting.token, env=environment, check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        with open(folder / ".config/te/config.toml", "a") as config:
            config.write(f'authority = "{authority}"\n')
        yield Machine(te, folder, environment, ports["SSH_PORT"], ports["EDGE_PORT"], upstream)
