"""Attacks on the live edge: their effect on other visitors of the same tunnel.

`python -m bench.visitors` prints failures and times of each trial, before and during the attack. Edge, Envoy, ssh,
upstream, attackers and other visitors each have a process.
"""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import asyncssh
from h2.config import H2Configuration
from h2.connection import H2Connection

from bench import engines, servers
from bench.edge import ENVOY, ENVOY_OPTIONS
from edge.control.control import Control
from edge.process.settings import Limits, Settings
from edge.ssh.gateway import SshGateway
from edge.store.records import Grant
from infra.local.cloud import HOST
from tests.edge import process_table
from tests.edge.edge_table import EdgeTable
from tests.edge.worst_filters import WORST, keep

ATTACKERS = [f"127.0.0.{number}" for number in range(60, 66)]
OTHERS = [f"127.0.0.{number}" for number in range(2, 22)]
RATE, SECONDS, TIMEOUT = 100, 5, 10.0  # requests per second of the other visitors; seconds
_NAME = "demo.tunnels.localhost"
SPAWN = multiprocessing.get_context("spawn")
_SSH = ["ssh", "-F", "none", "-N", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no"]
_CONTEXT = ssl._create_unverified_context()
Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Ports:
    """The ports of all servers."""

    upstream: int
    ssh: int
    edge: int
    http: int


def serve_edge(folder: Path, ports: Ports, limits: Limits) -> None:
    """Serve gateway and control. The key in the folder can bind any address."""
    settings = Settings(directory=folder, ssh_port=ports.ssh, edge_port=ports.edge, http_port=ports.http, limits=limits)
    fingerprint = asyncssh.read_public_key(folder / "key.pub").get_fingerprint()

    async def serve(store: EdgeTable) -> None:
        gateway, control = SshGateway(settings, store, store.authority), Control(settings, store.authority)
        await asyncio.gather(gateway.serve(), control.serve())

    with process_table.serving(), (folder / "edge.log").open("w") as log, contextlib.redirect_stderr(log):
        store = EdgeTable()
        store.permit(fingerprint, Grant("acct_1", "sshcr_1", ()))
        for index, rules in enumerate(WORST.values()):
            keep(store, settings.tunnel_domain, f"worst{index}", rules)
        asyncio.run(serve(store))


class _Upstream(asyncio.Protocol):
    """A server that answers each GET and never answers other requests."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET "):
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n")  # type: ignore[attr-defined]


def serve_upstream(port: int) -> None:
    """Serve the tunnel's upstream."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Upstream, HOST, port, backlog=1024)
        await server.serve_forever()

    asyncio.run(serve())


async def connected(port: int, source: str, context: ssl.SSLContext = _CONTEXT) -> Stream:
    """Open a TLS connection from an address."""
    return await asyncio.open_connection(HOST, port, ssl=context, server_hostname=_NAME, local_addr=(source, 0))


# Attacks: each function starts `count` of its connections and then continues forever.

Begun: TypeAlias = Callable[[], object]
Harm: TypeAlias = Callable[[Ports, int, Begun], Awaitable[None]]


async def slow_bodies(ports: Ports, count: int, begun: Begun) -> None:
    """Begin requests from one address and never send their bodies."""
    connections = [await _slow_body(ports) for _ in range(count)]
    begun()
    await asyncio.gather(*(reader.read() for reader, _ in connections))
    await asyncio.Event().wait()


async def slow_bodies_begun_again(ports: Ports, count: int, begun: Begun) -> None:
    """Repeat requests whose bodies never come, each a second after the previous one has ended."""

    async def repeat() -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await _slow_body(ports)
                await reader.read()
                writer.close()
            await asyncio.sleep(1)

    asyncio.get_running_loop().call_later(4, begun)
    await asyncio.gather(*(repeat() for _ in range(count)))


async def _slow_body(ports: Ports) -> Stream:
    reader, writer = await connected(ports.edge, ATTACKERS[0])
    writer.write(f"POST / HTTP/1.1\r\nhost: {_NAME}\r\ncontent-length: 100000\r\n\r\nx".encode())
    return reader, writer


async def slow_streams(ports: Ports, count: int, begun: Begun) -> None:
    """Open HTTP/2 connections with 100 streams each, and never send the bodies."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(["h2"])
    connections = []
    for _ in range(count):
        reader, writer = await connected(ports.edge, ATTACKERS[0], context)
        http = H2Connection(H2Configuration(client_side=True))
        http.initiate_connection()
        for stream in range(1, 200, 2):
            head = [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", _NAME)]
            http.send_headers(stream, head)
            http.send_data(stream, b"x")
        writer.write(http.data_to_send())
        connections.append((reader, writer))
    begun()
    await asyncio.gather(*(reader.read() for reader, _ in connections))
    await asyncio.Event().wait()


async def silent(ports: Ports, count: int, begun: Begun) -> None:
    """Connect to both ports and send nothing."""
    connections = [
        await asyncio.open_connection(HOST, port, local_addr=(ATTACKERS[0], 0))
        for port in (ports.edge, ports.http)
        for _ in range(count)
    ]
    begun()
    await asyncio.gather(*(reader.read() for reader, _ in connections))


async def idle(ports: Ports, count: int, begun: Begun) -> None:
    """Complete TLS handshakes from six addresses and send no request."""
    connections = [await connected(ports.edge, source) for source in ATTACKERS for _ in range(count // len(ATTACKERS))]
    asyncio.get_running_loop().call_later(3, begun)
    await asyncio.gather(*(reader.read() for reader, _ in connections))
    await asyncio.Event().wait()


async def idle_begun_again(ports: Ports, count: int, begun: Begun) -> None:
    """Repeat idle connections 0.2 seconds after they have ended."""

    async def repeat(source: str) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(5):
                    reader, _ = await connected(ports.edge, source)
                await reader.read()
            await asyncio.sleep(0.2)

    asyncio.get_running_loop().call_later(4, begun)
    await asyncio.gather(*(repeat(source) for source, _ in zip(itertools.cycle(ATTACKERS), range(count), strict=False)))


def harm(attack: Harm, ports: Ports, count: int, begun: Event) -> None:
    """Attack until the process is killed."""
    asyncio.run(attack(ports, count, begun.set))  # type: ignore[arg-type]


# The other visitors


async def _visits(ports: Ports, seconds: int) -> tuple[list[float], Counter[str]]:
    """Send RATE requests per second, each on a new connection. Return their seconds and the failures."""
    taken, failed = list[float](), Counter[str]()

    async def visit(source: str) -> None:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT):
                reader, writer = await connected(ports.edge, source)
                writer.write(f"GET / HTTP/1.1\r\nhost: {_NAME}\r\n\r\n".encode())
                status = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
                await reader.readexactly(6)
                writer.close()
        except (OSError, EOFError, TimeoutError) as error:
            status = type(error).__name__
        taken.append(time.perf_counter() - began)
        if status != "200":
            failed[status] += 1

    tasks, begin = [], time.perf_counter()
    for number in range(RATE * seconds):
        await asyncio.sleep(max(0, begin + number / RATE - time.perf_counter()))
        tasks.append(asyncio.create_task(visit(OTHERS[number % len(OTHERS)])))
    await asyncio.gather(*tasks)
    return taken, failed


def visit(ports: Ports, seconds: int, pipe: "Connection[Any, Any]") -> None:
    """Send the results of `_visits` through a pipe."""
    pipe.send(asyncio.run(_visits(ports, seconds)))


def visited(ports: Ports) -> tuple[float, float, int]:
    """Return the median and 99th percentile of the seconds, and the number of failures."""
    ours, theirs = SPAWN.Pipe()
    with child(visit, ports, SECONDS, theirs):
        taken, failed = ours.recv()
    cuts = quantiles(taken, n=100)
    return cuts[49], cuts[98], failed.total()


@contextlib.contextmanager
def child(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Run a function in a child process during the block."""
    process = SPAWN.Process(target=work, args=arguments)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def running(limits: Limits) -> Iterator[Ports]:
    """Run an edge with a tunnel."""
    with TemporaryDirectory() as named, contextlib.ExitStack() as stack:
        folder, ports = Path(named), Ports(*(engines.free_port() for _ in range(4)))
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        stack.enter_context(child(serve_upstream, ports.upstream))
        stack.enter_context(child(serve_edge, folder, ports, limits))
        engines.await_port(ports.ssh)
        forward = ["-i", str(folder / "key"), "-p", str(ports.ssh), "-R", f"demo:80:{HOST}:{ports.upstream}"]
        stack.enter_context(servers.running([*_SSH, *forward, f"x@{HOST}"], ports.ssh, os.environ))
        envoy = ["env", "-C", str(folder), str(ENVOY), "-c", "bootstrap.json", *ENVOY_OPTIONS]
        stack.enter_context(servers.running(envoy, ports.edge, os.environ))
        time.sleep(2)
        yield ports


TRIALS: list[tuple[Harm, int, dict[str, int]]] = [
    (slow_bodies, 256, {}),
    (slow_bodies, 1024, {}),
    (slow_bodies_begun_again, 1024, {}),
    (slow_streams, 3, {}),
    (silent, 300, {"max_connections": 300}),
    (idle, 300, {"max_connections": 300}),
    (idle_begun_again, 300, {"max_connections": 300}),
]


def main(names: list[str]) -> None:
    """Print a line for each trial, or only for the named ones."""
    for attack, count, bounds in TRIALS:
        if names and attack.__name__ not in names:
            continue
        with running(replace(Limits(), **bounds)) as ports:
            quiet, begun = visited(ports), SPAWN.Event()
            with child(harm, attack, ports, count, begun):
                begun.wait(60)
                median, p99, failed = visited(ports)
        name = f"{count} {attack.__name__.replace('_', ' ')}"
        times = f"p50 {1000 * quiet[0]:.1f} → {1000 * median:.1f} ms, p99 {1000 * quiet[1]:.1f} → {1000 * p99:.1f} ms"
        print(f"{name:32} failed {failed:3} of {RATE * SECONDS}, {times} ({p99 / quiet[1]:.2f} ×)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
