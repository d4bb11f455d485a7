"""A whole edge beside `make run`: its processes, as users start them."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, Served, free_port, serve
from tests.live.edge.running import Key, Ssh, ssh_command
from tests.live.edge.visitors import Address

PYTHON = ROOT / ".venv-edge" / "bin" / "python"


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
        """Return the process id of a child of the edge, or of a child's child, such as Envoy."""
        children = subprocess.run(["pgrep", "-P", str(self.edge.pid)], capture_output=True, text=True).stdout.split()
        parents = ",".join([str(self.edge.pid), *children])
        output = subprocess.run(["pgrep", "-P", parents, "-f", name], capture_output=True, text=True).stdout
        return int(output) if output.strip() else 0

    def ssh(self, *arguments: str, key: Key | None = None) -> Ssh:
        return Ssh(ssh_command(int(self.ports["SSH_PORT"]), key or self.key, "-tt", *arguments, "127.0.0.1"))

    def status(self, name: str, path: str = "/", *options: str) -> str:
        port, host = self.ports["EDGE_PORT"], f"{name}.tunnels.localhost"
        trust = ["--cacert", str(self.api.local / self.directory / "authority.crt")]
        for resolved in (host, "sign-in.tunnels.localhost"):
            trust += ["--resolve", f"{resolved}:{port}:127.0.0.1"]
        command = ["curl", "-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", *trust, *options]
        return subprocess.run([*command, f"https://{host}:{port}{path}"], capture_output=True, text=True).stdout

    def visit(self, name: str, cookie: str = "") -> str:
        """Return the status of an address, "" where there is no connection."""
        context = ssl.create_default_context(cafile=self.api.local / self.directory / "authority.crt")
        host = f"{name}.tunnels.localhost"
        try:
            with socket.create_connection(("127.0.0.1", int(self.ports["EDGE_PORT"])), 5) as raw:
                secure = context.wrap_socket(raw, server_hostname=host)
                secure.sendall(
                    f"GET / HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n".encode()
                )
                return secure.recv(1000).decode().split(" ")[1]
        except (OSError, IndexError):
            return ""

    def address(self, name: str) -> Address:
        """Return the address of a name, for visitors."""
        authority = self.api.local / self.directory / "authority.crt"
        return Address(f"{name}.tunnels.localhost", int(self.ports["EDGE_PORT"]), authority)

    def list_unanswered(self) -> str:
        """Return the lines of Envoy's access log with another status than 200, for the message of a failed test."""
        lines = (self.api.local / "edge" / "access.log").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if '"status":' in line and '"status":200' not in line)

    def operator(self, *arguments: str, stdin: str = "") -> str:
        """Return what a command of the operator's prints. `stdin` is its standard input."""
        command = [sys.executable, "-m", "chalicelib", *arguments]
        environment = {**os.environ, **self.api.cloud}
        return subprocess.run(
            command, cwd=ROOT, env=environment, input=stdin, check=True, capture_output=True, text=True
        ).stdout

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


def credential(api: Served, name: str, **fields: str) -> Key:
    key = Key.make(api.local, name)
    api.client().create("/ssh_credentials", {"public_key": key.file.with_suffix(".pub").read_text(), **fields})
    return key
