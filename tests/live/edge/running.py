"""A whole edge on the table of the tests: gateway and control in a thread, Envoy as a child, real clients."""

import asyncio
import base64
import contextlib
import json
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha1
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import online_tunnels
from edge.control.control import Control
from edge.link.authority import KeyPair
from edge.process.children import Child, Program
from edge.process.envoy_process.envoy_parent import ENVOY_ARGUMENTS
from edge.process.settings import Limits, Settings
from edge.ssh.gateway import SshGateway
from edge.store.records import Grant
from tests import openssl
from tests.conftest import free_port, place_among_workers
from tests.edge.edge_table import EdgeTable
from tests.needs import need

RUNNING: list[EdgeTable] = []  # the stores of the edges that run
ENVOY = next(Path(__file__).parents[3].glob(".venv-edge/lib/python*/site-packages/envoy/_bin/envoy"), None)


def build_certificate(id: str, account: str, *names: str, since: int = -1, until: int = 365) -> ServedCertificate:
    """Return a certificate of an account from and until so many days from now, as the store has it."""
    now = datetime.now(UTC)
    return ServedCertificate(account, id, "", names, now + timedelta(days=since), now + timedelta(days=until))


def free_ports(count: int) -> range:
    """Return so many ports of TCP_PORTS, one after the other, that no other process of these tests has."""
    worker, workers = place_among_workers()
    each = 10_000 // workers
    while True:
        first = 20_000 + worker * each + random.randrange(each - count)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return range(first, first + count)


def until(true: Callable[[], bool], *, within: float = 15) -> None:
    """Wait until something is true. Raise AssertionError if it takes too long.

    Between two checks it waits four times as long as a check takes: the edge needs the CPU more than the test.
    """
    end = time.monotonic() + within
    while True:
        start = time.monotonic()
        if true():
            return
        now = time.monotonic()
        assert now < end, "it took too long"
        time.sleep(min(max(0.01, 4 * (now - start)), max(0.01, end - now), 1))


@dataclass
class Key:
    """A key of a client, in a file."""

    file: Path
    fingerprint: str

    @staticmethod
    def make(folder: Path, name: str) -> "Key":
        need("ssh")
        file = folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        output = subprocess.run(["ssh-keygen", "-l", "-f", file], check=True, capture_output=True, text=True).stdout
        return Key(file, output.split()[1])


def ssh_command(port: int, key: Key, *arguments: str) -> list[str]:
    """Return the command of an `ssh` that knows this key alone, and any host."""
    options = ["IdentitiesOnly=yes", "UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR"]
    option_arguments = [part for option in options for part in ("-o", option)]
    return ["ssh", "-F", "none", *option_arguments, "-p", str(port), "-i", str(key.file), *arguments]


class Ssh:
    """An `ssh` that runs."""

    def __init__(self, command: list[str], *, stdin: Any = subprocess.DEVNULL) -> None:
        self._process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def wait_for(self, text: str, *, within: float = 10) -> None:
        """Wait until a line holds the text."""
        try:
            until(lambda: any(text in line for line in self._lines), within=within)
        except AssertionError:
            raise AssertionError(f"{text!r} is not in {self._lines}") from None

    def wait(self, *, within: float = 10) -> int:
        """Wait at most `within` seconds for its end; return its exit status."""
        status = self._process.wait(within)
        self._reader.join(5)
        return status

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def write(self, text: str) -> None:
        """Send what somebody types."""
        assert self._process.stdin
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.append(line.rstrip("\r\n"))


@dataclass
class Edge:
    """The parts of a running edge that tests use."""

    settings: Settings
    store: EdgeTable
    folder: Path
    loop: asyncio.AbstractEventLoop
    gateway: SshGateway
    control: Control
    controlling: "asyncio.Task[None]"
    keys: dict[str, Key] = field(default_factory=dict)
    clients: list[Ssh] = field(default_factory=list)

    def key(self, account: str, *acl: str) -> Key:
        """Return a fresh key with a credential of the account."""
        key = Key.make(self.folder, f"key{len(self.keys)}-{time.monotonic_ns()}")
        self.keys[key.fingerprint] = key
        self.store.permit(key.fingerprint, Grant(account, f"sshcr_{key.file.name}", acl))
        return key

    def ssh(
        self,
        key: Key,
        *arguments: str,
        terminal: str = "-tt",
        stdin: Any = subprocess.DEVNULL,
        command: Sequence[str] = (),
    ) -> Ssh:
        """Start a client; it is ended with the test."""
        port = self.settings.ssh_port
        client = Ssh(ssh_command(port, key, terminal, *arguments, "127.0.0.1", *command), stdin=stdin)
        self.clients.append(client)
        return client

    def url(self, name: str, path: str = "/") -> str:
        return self.settings.url(f"{name}.{self.settings.tunnel_domain}") + path

    def curl(self, name: str, *arguments: str, path: str = "/", timeout: int = 20) -> str:
        """Return curl's output for a tunnel's address; it trusts the local authority alone."""
        need("curl")
        trust = ["--cacert", str(self.settings.directory / "authority.crt")]
        command = ["curl", "-sS", "--max-time", str(timeout), *trust, *self.resolved(name), *arguments]
        return subprocess.run([*command, self.url(name, path)], capture_output=True, text=True).stdout

    def resolved(self, name: str) -> list[str]:
        return ["--resolve", f"{name}.{self.settings.tunnel_domain}:{self.settings.edge_port}:127.0.0.1"]

    def status(self, name: str, *arguments: str, path: str = "/") -> str:
        """Return the status of a request, "000" without a response. Only with arguments for curl it is curl's."""
        if not arguments:
            return self._status(name, path)
        return self.curl(name, "-o", "/dev/null", "-w", "%{http_code}", *arguments, path=path)

    def _status(self, name: str, path: str) -> str:
        """Send a request from this process, which takes a fifth of a curl's CPU."""
        host = f"{name}.{self.settings.tunnel_domain}:{self.settings.edge_port}"
        try:
            with self.connect(name) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
                answer = HTTPResponse(connection)
                answer.begin()
                answer.read()
                return str(answer.status)
        except (OSError, HTTPException):
            return "000"

    def connect(self, name: str, *protocols: str, source: str = "") -> ssl.SSLSocket:
        """Return a TLS connection to a tunnel's address, from a source address if one is given."""
        raw = socket.create_connection(("127.0.0.1", self.settings.edge_port), 10, (source, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the first request would wait for a delayed ACK
        return _build_context(self.settings.directory / "authority.crt", protocols).wrap_socket(
            raw, server_hostname=f"{name}.{self.settings.tunnel_domain}"
        )

    def upload(self, id: str, account: str, name: str, kind: str = "p256") -> None:
        """Put a certificate into the store, as the API would."""
        new_pair = openssl.issue(f"/CN={id}", kind, extensions=(f"subjectAltName=DNS:{name}",))
        self.store.upload(build_certificate(id, account, name), KeyPair(new_pair.certificate, new_pair.key))

    def restart_control(self) -> None:
        """End control, and start another one for the same Envoy."""
        self.stop_control()
        self.start_control()

    def stop_control(self) -> None:
        self.run(_end(self.controlling))

    def start_control(self) -> None:
        self.control = Control(self.settings, self.store.authority)
        self.controlling = self.run(_begin(self.control))

    def settle(self) -> None:
        """Wait until Envoy has all changes of the store."""
        start = time.monotonic()
        until(lambda: self.control.is_current(start))

    def open_tunnels(self) -> set[str]:
        """Return the ids of the tunnels that are online through the gateway."""
        return {tunnel.id for tunnel in online_tunnels.read_tunnels_of_gateway(self.gateway.id)}

    def access_log(self) -> list[dict[str, Any]]:
        """Return the lines of the access log that are written to their end."""
        log = self.settings.directory / "access.log"
        complete = log.read_text().rpartition("\n")[0] if log.exists() else ""
        return [json.loads(line) for line in complete.splitlines()]

    def run(self, work: Any) -> Any:
        """Return the result of a coroutine that runs in the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    with_envoy: bool,
    abuse_contact: str = "",
    believed: str = "",
    ports: int = 10,
    sign_in_ports: Sequence[int] = (),
    **limits: int,
) -> Iterator[Edge]:
    """Run an edge in a folder of its own.

    `believed` is the network of its PROXY_PROTOCOL_FROM. `sign_in_ports` are those of its SIGN_IN_HOSTS.
    """
    settings = Settings(
        directory=folder / "edge",
        ssh_port=free_port(),
        edge_port=free_port(),
        http_port=free_port(),
        tcp_ports=free_ports(ports),
        abuse_contact=abuse_contact,
        proxy_protocol_from=(believed,) if believed else (),
        sign_in_hosts=tuple(
            ("127.0.0.1" if number else "localhost", port) for number, port in enumerate(sign_in_ports)
        ),
        metrics_port=free_port(),
        limits=replace(Limits(), **limits),
    )
    settings.directory.mkdir(mode=0o700)
    store = EdgeTable(tcp_ports=settings.tcp_ports)
    RUNNING.append(store)
    loop = asyncio.new_event_loop()
    gateway = SshGateway(settings, store, store.authority)
    control = Control(settings, store.authority)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    child, work, controlling = asyncio.run_coroutine_threadsafe(
        _start(settings, control, gateway, with_envoy), loop
    ).result(30)
    edge = Edge(settings, store, folder, loop, gateway, control, controlling)
    try:
        until(lambda: listens(settings.ssh_port))
        until(lambda: not with_envoy or listens(settings.edge_port), within=20)
        yield edge
    finally:
        for client in edge.clients:
            client.kill()
        asyncio.run_coroutine_threadsafe(_stop(child, work, edge.controlling), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        store.end()
        RUNNING.remove(store)


async def _start(
    settings: Settings, control: Control, gateway: SshGateway, with_envoy: bool
) -> "tuple[Child | None, asyncio.Task[None], asyncio.Task[None]]":
    work, controlling = asyncio.create_task(gateway.serve()), await _begin(control)
    if not with_envoy:
        return None, work, controlling
    while not settings.discovery_socket.exists():
        await asyncio.sleep(0.01)
    folder = settings.directory
    command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1", "--file-flush-interval-msec", "100"]
    child = Child(Program("Envoy", command, folder / "envoy.log", folder, environment={}))
    await child.start()
    return child, work, controlling


@cache
def _build_context(authority: Path, protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


async def _begin(control: Control) -> "asyncio.Task[None]":
    return asyncio.create_task(control.serve())


async def _end(work: "asyncio.Task[None]") -> None:
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _stop(child: Child | None, *work: "asyncio.Task[None]") -> None:
    if child:
        await child.end(within=0)  # Envoy takes a second to end by itself
    for task in work:
        await _end(task)


def listens(port: int) -> bool:
    """Tell whether something listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def upgrade(key: str) -> bytes:
    """Return the head of the answer that opens a WebSocket."""
    digest = sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: "
    return f"{head}{base64.b64encode(digest).decode()}\r\n\r\n".encode()


class Upstream(BaseHTTPRequestHandler):
    """A server behind a tunnel that says what it was asked."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    come = threading.Semaphore(0)  # events, as their client says

    def do_GET(self) -> None:
        if self.path == "/events":
            self._events()
        elif self.path == "/come":
            self.come.release()
            self._answer(b"")
        elif self.path == "/held":
            self._hold_response()
        elif self.path == "/missing":
            self.send_error(404)
        elif self.path == "/echo" and "sec-websocket-key" in self.headers:
            self._echo()
        elif self.path.startswith("/bytes/"):
            self._answer(b"x" * int(self.path.rpartition("/")[2]))
        elif self.path == "/upgraded":
            self.wfile.write(upgrade("") + self._read())
            self.close_connection = True
        else:
            self._answer(self._read())

    def _read(self) -> bytes:
        headers = "".join(f"{name.lower()}: {value}\n" for name, value in self.headers.items())
        return f"{self.command} {self.path}\n{headers}".encode()

    def do_POST(self) -> None:
        expected, length = int(self.headers.get("content-length", 0)), 0
        while length < expected and (read := self.rfile.read(min(1 << 20, expected - length))):
            length += len(read)
        self._answer(f"{length} bytes\n".encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _hold_response(self) -> None:
        """Begin to answer, and go on when the client has gone."""
        self.send_response(200)
        self.send_header("content-length", "1")
        self.end_headers()
        self.wfile.flush()
        self.rfile.read(1)
        self.close_connection = True

    def _echo(self) -> None:
        """Send back each text of a WebSocket, of at most 125 bytes, until its client closes it; then close it too."""
        self.wfile.write(upgrade(self.headers["sec-websocket-key"]))
        self.wfile.flush()
        while len(head := self.rfile.read(2)) == 2:
            mask, length = self.rfile.read(4), head[1] & 0x7F
            text = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(length)))
            self.wfile.write(bytes([head[0], length]) + text)
            self.wfile.flush()
            if head[0] == 0x88:
                break
        self.close_connection = True

    def _events(self) -> None:
        """Send three events, each when the client has said that the one before has come."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for number in range(3):
            self.wfile.write(f"data: {number}\n\n".encode())
            self.wfile.flush()
            if not self.come.acquire(timeout=10):
                break

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def upstream(handler: type[BaseHTTPRequestHandler] = Upstream) -> Iterator[int]:
    """Serve on a port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.block_on_close = False  # Envoy keeps its connections
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
