"""A fleet beside one `make edge`: more gateways, a TCP balancer in front of them, and `ssh` in a loop."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

from tests.conftest import ROOT, Served, free_port
from tests.live.edge.processes import PYTHON
from tests.live.edge.running import Key, ssh_command, until


@dataclass
class GatewayProcess:
    """A gateway in a process of its own."""

    process: "subprocess.Popen[bytes]"
    ssh_port: int
    metrics_port: int
    log: Path

    def is_ready(self) -> bool:
        return self.ready() == 200

    def ready(self) -> int:
        """Return the status of /readyz, 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=5) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except (URLError, OSError):
            return 0

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def gateways(api: Served, folder: Path, count: int, **settings: str) -> Iterator[list[GatewayProcess]]:
    """Run gateways beside an edge, each with a folder of its own."""
    processes: list[GatewayProcess] = []
    folder.mkdir(exist_ok=True)
    try:
        for number in range(count):
            directory = folder / f"gateway-{number}"
            ports = {"SSH_PORT": free_port(), "METRICS_PORT": free_port()}
            variables = {name: str(port) for name, port in ports.items()} | {"EDGE_DIR": str(directory)} | settings
            log = folder / f"gateway-{number}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [PYTHON, "-m", "edge", "gateway"],
                    cwd=ROOT,
                    env={**os.environ, **api.cloud, "METRICS_BY": "gateway", **variables},
                    stderr=output,
                )
            processes.append(GatewayProcess(process, ports["SSH_PORT"], ports["METRICS_PORT"], log))
        for gateway in processes:
            until(gateway.is_ready, within=20)
        yield processes
    finally:
        for gateway in processes:
            gateway.end()


class Balancer:
    """A TCP balancer that connects each client to the first of some ports that accepts it."""

    def __init__(self, ports: Sequence[int], header: bytes = b"") -> None:
        self._ports, self._header = ports, header
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        for port in self._ports:
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", port), 2)
                server.settimeout(None)
                server.sendall(self._header)
                threading.Thread(target=_copy, args=(server, client), daemon=True).start()
                _copy(client, server)
                return
        client.close()

    def close(self) -> None:
        self._listening.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for connection in (source, target):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class ClientLoop:
    """`ssh` in a loop of the shell, as a client of a fleet runs it."""

    def __init__(self, port: int, key: Key, *arguments: str) -> None:
        command = shlex.join(ssh_command(port, key, "-N", *arguments, "127.0.0.1"))
        self._process = subprocess.Popen(
            ["sh", "-c", f"while :; do {command}; sleep 0.1; done"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.lines.append(f"{time.strftime('%X')} {line.rstrip()}")

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
