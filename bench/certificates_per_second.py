"""Certificates signed in a second over HTTP; against ssh-keygen, as many at once, and against the library in a loop."""

import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import load, requests, results, servers, side_by_side, signing
from bench.engines import Setting
from bench.results import Point, Result, Row

CLIENTS, SECONDS, ROUNDS = (1, 8), 3, 3


def measure(setting: Setting) -> Result:
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    rows: list[Row] = []
    points: list[Point] = []
    with servers.ours() as url:
        for clients in CLIENTS:
            http, keygen, library = _rates(url, clients, setting.token, authority)
            who = f"{clients} client{'s' * (clients > 1)}"
            rows.append(results.at_least(5, f"certificates, {who}: ssh-keygen -s", http, keygen, results.per_second))
            rows.append(results.reported("… the library in a loop", http, library, results.per_second))
            points.append(Point("throughput", "POST a certificate", clients, http))
    return Result(rows, points)


def _rates(url: str, clients: int, token: str, authority: str) -> list[float]:
    """Return certificates per second: by the service, by ssh-keygen, by the library."""
    request = signing.request(authority)
    with TemporaryDirectory() as folder:
        commands = []
        for number in range(clients):
            Path(folder, str(number)).mkdir()
            commands.append(signing.keygen(Path(folder, str(number))))
        keygens = [partial(subprocess.run, command, check=True) for command in commands]
        actions = (
            partial(
                load.rate,
                url,
                path="/ssh_user_certificates",
                clients=clients,
                seconds=SECONDS,
                token=token,
                body=request,
                status=201,
            ),
            lambda: _rate(keygens),
            lambda: _rate([signing.sign]),
        )
        return side_by_side.medians_of(actions, ROUNDS)


def _rate(works: Sequence[Callable[[], object]]) -> float:
    """Return how many calls are done in a second, with one thread for each function."""
    until = time.monotonic() + 1

    def again(work: Callable[[], object]) -> int:
        done = 0
        while time.monotonic() < until:
            work()
            done += 1
        return done

    with ThreadPoolExecutor(len(works)) as threads:
        return float(sum(threads.map(again, works)))
