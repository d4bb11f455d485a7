"""A whole edge beside `make run`: its processes, as users start them."""

import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from tests import operator_commands
from tests.conftest import ROOT, Served, free_port, serve
from tests.live.edge.running import Key, Ssh, ssh_command
from tests.live.edge.visitors import Address

PYTHON = ROOT / ".venv-edge" / "bin" / "python"
# Settings of an edge without a sign-in service, which takes a second of CPU to start and serves only OAuth.
WITHOUT_SIGN_IN = {"SIGN_IN_HOSTS": "127.0.0.1:1"}


@dataclass
class Platform:
    """An API with an edge beside it."""

    api: Served
    ports: dict[str, str]
    edge: subprocess.Popen[str]
    key: Key
    welcome: tuple[str, ...] = ()  # lines that the edge printed at its start
    directory: Path = Path("edge")  # EDGE_DIR, below LOCAL_DIR unless it is absolute

    def child(self, name: str) -> int:
        """Return the process id of a child of the edge, or of a child's child, such as Envoy. Return 0 without one."""
        children = list_children(self.edge.pid)
        processes = [*children, *(process for child in children for process in list_children(child))]
        (process,) = [process for process in processes if name in read_arguments(process)] or (0,)
        return process

    def ssh(self, *arguments: str, key: Key | None = None) -> Ssh:
        return Ssh(ssh_command(int(self.ports["SSH_PORT"]), key or self.key, "-tt", *arguments, "127.0.0.1"))

    def status(self, name: str, path: str = "/", *options: str) -> str:
        """Return the status of a request, "000" without a response. Only with options for curl it is curl's."""
        if not options:
            with suppress(OSError, HTTPException), self._request(name, path) as response:
                response.read()
                return str(response.status)
            return "000"
        port, host = self.ports["EDGE_PORT"], f"{name}.tunnels.localhost"
        trust = ["--cacert", str(self.authority)]
        for resolved in (host, "sign-in.tunnels.localhost"):
            trust += ["--resolve", f"{resolved}:{port}:127.0.0.1"]
        command = ["curl", "-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", *trust, *options]
        return subprocess.run([*command, f"https://{host}:{port}{path}"], capture_output=True, text=True).stdout

    def visit(self, name: str, cookie: str = "") -> str:
        """Return the status of an address, "" where there is no connection. Does not read the response's body."""
        with suppress(OSError, HTTPException), self._request(name, "/", cookie) as response:
            return str(response.status)
        return ""

    @property
    def authority(self) -> Path:
        """Return the file with the certificate of the edge's authority."""
        return self.api.local / self.directory / "authority.crt"

    @contextmanager
    def _request(self, name: str, path: str, cookie: str = "") -> Iterator[HTTPResponse]:
        """Send a request over a new connection. Yield the response with its head."""
        host = f"{name}.tunnels.localhost"
        with (
            socket.create_connection(("127.0.0.1", int(self.ports["EDGE_PORT"])), 5) as raw,
            self._context.wrap_socket(raw, server_hostname=host) as secure,
        ):
            head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
            secure.sendall(head.encode())
            response = HTTPResponse(secure)
            response.begin()
            yield response

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    def address(self, name: str) -> Address:
        """Return the address of a name, for visitors."""
        return Address(f"{name}.tunnels.localhost", int(self.ports["EDGE_PORT"]), self.authority)

    def list_unanswered(self) -> str:
        """Return the lines of Envoy's access log with another status than 200, for the message of a failed test."""
        lines = (self.api.local / "edge" / "access.log").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if '"status":' in line and '"status":200' not in line)

    def operator(self, *arguments: str, stdin: str = "") -> str:
        """Return what a command of the operator's prints. `stdin` is its standard input."""
        return operator_commands.run(self.api.cloud, *arguments, stdin=stdin)

    def tunnels(self, name: str) -> list[dict[str, Any]]:
        """Return the tunnels of a name, as the API lists them: those of a gateway that was killed stay for a minute."""
        tunnels: list[dict[str, Any]] = self.api.client().get("/tunnels").json["tunnels"]
        return [tunnel for tunnel in tunnels if tunnel.get("public_url", "").startswith(f"https://{name}.")]


@contextmanager
def run_edge(folder: Path, **settings: str) -> Iterator[Platform]:
    """Run an API and an edge beside it in a folder, with a credential, until both have ended."""
    names = ("SSH_PORT", "EDGE_PORT", "HTTP_PORT", "METRICS_PORT")
    ports = {name: str(free_port()) for name in names}
    run, api = serve(folder)
    try:
        key, welcome = credential(api, "key"), list[str]()
        edge = start_edge(api, {**ports, "LOCAL_DIR": str(folder), **settings}, welcome)
        try:
            yield Platform(api, ports, edge, key, tuple(welcome))
        finally:
            edge.send_signal(signal.SIGINT)
            edge.wait(20)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(30)


def start_edge(api: Served, settings: dict[str, str], welcome: list[str] | None = None) -> "subprocess.Popen[str]":
    """Start an edge beside an API. Append what it prints to `welcome`."""
    edge = subprocess.Popen(
        ["sh", "-c", f"ulimit -S -n 256; exec '{PYTHON}' -m edge"],
        cwd=ROOT,
        env={**os.environ, **api.cloud, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert edge.stdout
    while "curl " not in (line := edge.stdout.readline()):
        assert line, "the edge has not started"
        (welcome if welcome is not None else []).append(line.strip())
    return edge


def list_children(process: int) -> list[int]:
    """Return the ids of the children of a process. `pgrep` would read the files of all processes."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def read_arguments(process: int) -> str:
    """Return the arguments of a process, "" after its end."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().partition("\0")[2].replace("\0", " ")
    except OSError:
        return ""


def credential(api: Served, name: str, **fields: str) -> Key:
    key = Key.make(api.local, name)
    api.client().create("/ssh_credentials", {"public_key": key.file.with_suffix(".pub").read_text(), **fields})
    return key
