"""Certificates signed over HTTP: rate, CPU and latency.

They are compared with as many parallel ssh-keygen, the library in a loop, and OpenBao's SSH engine (stores nothing).
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench import load, openbao, requests, results, servers, side_by_side, signing
from bench.engines import Setting
from bench.results import Point, Result, Row
from bench.servers import Server
from chalicelib.crypto import keys

CLIENTS, SECONDS, ROUNDS, COUNT = (1, 8), 3, 3, 300
_PEER = "OpenBao's engine, from memory, no record kept"


@dataclass(frozen=True)
class Signer:
    """A server that signs, and the request for a certificate."""

    server: Server
    request: dict[str, Any]
    status: int

    def rate(self, clients: int) -> float:
        """Return certificates per second."""
        return load.rate(self.server.url, **self.request, clients=clients, seconds=SECONDS, status=self.status)

    def cost(self) -> tuple[float, float]:
        """Return the server's CPU seconds per certificate, and one client's median latency."""
        process = psutil.Process(self.server.pid)
        before = sum(process.cpu_times()[:2])
        wait = load.p50(self.server.url, **self.request, count=COUNT)
        return (sum(process.cpu_times()[:2]) - before) / COUNT, wait


def measure(setting: Setting) -> Result:
    rows: list[Row] = []
    points: list[Point] = []
    with _ours(setting) as ours, _peers() as peers:
        for clients in CLIENTS:
            figure = f"certificates, {clients} client{'s' * (clients > 1)}"
            http, keygen, library, *peer = _rates(ours, peers, clients)
            rows.append(results.reported(f"{figure}: ssh-keygen -s", http, keygen, results.per_second))
            rows.append(results.reported("… the library in a loop", http, library, results.per_second))
            rows += [results.reported(f"… {_PEER}", http, rate, results.per_second) for rate in peer]
            points.append(Point("throughput", "POST a certificate", clients, http))
            points += [Point("throughput", "POST a certificate, OpenBao", clients, rate) for rate in peer]
        rows += _costs(ours, peers)
    return Result(rows, points)


@contextmanager
def _ours(setting: Setting) -> Iterator[Signer]:
    body = signing.request(requests.create("/ssh_certificate_authorities", setting.token, {})["id"])
    request = {"path": "/ssh_user_certificates", "headers": requests.headers(setting.token), "body": body}
    with servers.ours() as server:
        yield Signer(server, request, 201)


@contextmanager
def _peers() -> Iterator[list[Signer]]:
    """Run OpenBao if it is installed."""
    if not openbao.is_installed():
        yield []
        return
    body = {"public_key": keys.authorized_key(signing.PUBLIC_KEY), "valid_principals": "alice", "cert_type": "user"}
    with openbao.started() as (server, headers):
        yield [Signer(server, {"path": openbao.SIGN, "headers": headers, "body": body}, 200)]


def _rates(ours: Signer, peers: Sequence[Signer], clients: int) -> list[float]:
    """Return certificates per second of the service, ssh-keygen, the library and the peers."""
    with TemporaryDirectory() as folder:
        commands = []
        for number in range(clients):
            Path(folder, str(number)).mkdir()
            commands.append(signing.keygen(Path(folder, str(number))))
        keygens = [partial(subprocess.run, command, check=True) for command in commands]
        actions: list[Callable[[], float]] = [
            partial(ours.rate, clients),
            lambda: _rate(keygens),
            lambda: _rate([signing.sign]),
            *(partial(peer.rate, clients) for peer in peers),
        ]
        return side_by_side.medians_of(actions, ROUNDS)


def _rate(works: Sequence[Callable[[], object]]) -> float:
    """Return calls per second, with one thread for each function."""
    until = time.monotonic() + 1

    def again(work: Callable[[], object]) -> int:
        done = 0
        while time.monotonic() < until:
            work()
            done += 1
        return done

    with ThreadPoolExecutor(len(works)) as threads:
        return float(sum(threads.map(again, works)))


def _costs(ours: Signer, peers: Sequence[Signer]) -> list[Row]:
    """Compare the servers' CPU and one client's latency for a certificate."""
    names = ("a certificate over HTTP, CPU", "a certificate over HTTP, p50, 1 client")
    rounds = [[signer.cost() for signer in (ours, *peers)] for _ in range(ROUNDS)]
    rows = []
    for index, name in enumerate(names):
        mine, *theirs = (median(cost[index] for cost in costs) for costs in zip(*rounds, strict=True))
        if theirs:
            rows.append(results.reported(f"{name}: {_PEER}", mine, theirs[0], results.ms))
        else:
            rows.append(Row(name, results.ms(mine), "not measured: OpenBao is not installed", None))
    return rows
