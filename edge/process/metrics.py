"""Serves the metrics of the edge to Prometheus.

Each process serves its own metrics at a Unix socket. One of the processes serves the metrics of all processes at a TCP
port. Metrics contain no names of accounts, tunnels or visitors.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edge.process import exposition, files, log, tasks

_TIMEOUT = 2.0  # the most seconds until a process answers
_CHUNK = 1 << 16  # the most bytes of one read
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ReadMetrics = Callable[[], Awaitable[bytes]]  # returns a process's metrics, or raises OSError if it does not answer
FindUnready = Callable[[], Awaitable[str]]  # returns the reason why a process is not ready, or ""


class Readable(Protocol):
    """An object with a method that returns metrics as text."""

    async def read(self) -> bytes:
        """Return the metrics in Prometheus's text format."""


class ProcessMetrics(Collector):
    """The metrics of a process: its gauges and counters, counts of logged events, and delays of periodic tasks.

    `gauges` and `counts` are called with each scrape. The counter of each name in `events` starts at 0. If the counter
    appeared with its first event, Prometheus would not count this event.
    """

    def __init__(
        self,
        name: str,
        gauges: Callable[[], Mapping[str, float]],
        counts: Callable[[], Mapping[str, float]],
        events: Iterable[str],
    ) -> None:
        self._prefix, self._gauges, self._counts = f"edge_{name}", gauges, counts
        self._events = dict.fromkeys(events, 0)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(namespace=self._prefix, registry=self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics for prometheus_client."""
        events = CounterMetricFamily(f"{self._prefix}_events", "Logged events, by event name.", labels=["event"])
        for event, count in sorted({**self._events, **log.event_counts}.items()):
            events.add_metric([event], count)
        yield events
        lags = GaugeMetricFamily(f"{self._prefix}_lag_seconds", "How late periodic work is.", labels=["task"])
        for task, seconds in sorted(tasks.lags().items()):
            lags.add_metric([task], seconds)
        yield lags
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", "See docs/edge-operations.md.", value)
        for name, value in self._counts().items():
            yield CounterMetricFamily(f"{self._prefix}_{name}", "See docs/edge-operations.md.", value)

    async def read(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self._registry)


def read_from(socket: Path, path: str = "/metrics") -> ReadMetrics:
    """Return a function that reads the metrics of another process. The function raises OSError."""

    async def read() -> bytes:
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await _get(socket, path)
        except TimeoutError:
            raise OSError("no answer") from None

    return read


def read_instances(sockets: Mapping[str, Path], path: str = "/metrics") -> ReadMetrics:
    """Return a function that reads the metrics of all instances of a process.

    The function raises OSError if no instance answers.
    """

    async def read() -> bytes:
        texts = await read_each(sockets, path)
        if not texts:
            raise OSError("no answer")
        return exposition.join_instances(texts)

    return read


async def read_each(sockets: Mapping[str, Path], path: str) -> Mapping[str, bytes]:
    """Send a request to all instances of a process. Return the responses by instance.

    Instances that do not answer are left out.
    """
    responses = await asyncio.gather(
        *(read_from(socket, path)() for socket in sockets.values()), return_exceptions=True
    )
    return {instance: text for instance, text in zip(sockets, responses, strict=True) if isinstance(text, bytes)}


async def find_unready(name: str, sockets: Mapping[str, Path], path: str = "/readyz") -> str:
    """Return why no instance of a process is ready. Return "" if one is ready."""
    return "" if await read_each(sockets, path) else f"no {name} is ready"


async def post(socket: Path, path: str) -> None:
    """Send a POST request to a process, at its Unix socket. Raises OSError."""
    async with asyncio.timeout(_TIMEOUT):
        await _send(socket, f"POST {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0")


async def _get(socket: Path, path: str) -> bytes:
    return await _send(socket, f"GET {path} HTTP/1.0")  # HTTP/1.0 avoids a chunked response


async def _send(file: Path, request: str) -> bytes:
    loop, received = asyncio.get_running_loop(), list[bytes]()
    with files.shorten_socket_path(file) as short, socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, str(short))
        await loop.sock_sendall(connection, f"{request}\r\nhost: edge\r\n\r\n".encode())
        while part := await loop.sock_recv(connection, _CHUNK):
            received.append(part)
        head, _, body = b"".join(received).partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise OSError(head.split(b"\r\n")[0].decode("latin-1"))
        return body


@contextlib.asynccontextmanager
async def serve_at_socket(socket: Path, process: Readable, checks: Sequence[FindUnready] = ()) -> AsyncIterator[None]:
    """Serve the metrics and the readiness of a process at a Unix socket."""
    socket.unlink(missing_ok=True)
    with files.shorten_socket_path(socket) as short:
        handle = _MetricsServer({"": process.read}, checks).handle
        server = await asyncio.start_unix_server(handle, str(short), **files.KEEP_SOCKET)
    socket.chmod(0o666)  # any user may connect: the mode of the folder limits the access instead
    async with server:
        yield


@contextlib.asynccontextmanager
async def serve_at_port(
    host: str, port: int, processes: Mapping[str, ReadMetrics], checks: Sequence[FindUnready] = ()
) -> AsyncIterator[None]:
    """Serve the metrics of all `processes` and the readiness at a TCP port.

    `processes` has, by the name of each process, the function that returns the process's metrics. A second instance of
    this process can share the port.
    """
    handle = _MetricsServer(processes, checks).handle
    async with await asyncio.start_server(handle, host, port, limit=4096, reuse_port=True):
        yield


class _MetricsServer:
    """Answers HTTP requests for /metrics, /healthz and /readyz."""

    def __init__(self, processes: Mapping[str, ReadMetrics], checks: Sequence[FindUnready]) -> None:
        self._processes, self._checks = processes, checks

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        with contextlib.closing(writer), contextlib.suppress(OSError, TimeoutError, ValueError, EOFError):
            async with asyncio.timeout(_TIMEOUT):
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            status, body = await self._answer(path.partition(b"?")[0])
            head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {_CONTENT_TYPE}\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()

    async def _answer(self, path: bytes) -> tuple[str, bytes]:
        if path == b"/healthz":
            return "200 OK", b"ok\n"
        if path == b"/metrics":
            return "200 OK", await self._read_all()
        if path != b"/readyz":
            return "404 Not Found", b"/metrics, /healthz, /readyz\n"
        if reasons := [reason for check in self._checks if (reason := await check())]:
            return "503 Service Unavailable", f"{'; '.join(reasons)}\n".encode()
        return "200 OK", b"ready\n"

    async def _read_all(self) -> bytes:
        texts = await asyncio.gather(*(read() for read in self._processes.values()), return_exceptions=True)
        answers = [text for text in texts if isinstance(text, bytes)]
        up = "".join(
            f'edge_up{{process="{name}"}} {int(isinstance(text, bytes))}\n'
            for name, text in zip(self._processes, texts, strict=True)
            if name
        )
        help_up = f"# HELP edge_up Whether a process answers.\n# TYPE edge_up gauge\n{up}" if up else ""
        return b"".join([*answers, help_up.encode()])
