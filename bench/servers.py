"""HTTP servers on this machine: the API by `make run` or `chalice local`, and others."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import engines
from infra import ROOT
from infra.local import signals
from infra.local.cloud import HOST


@dataclass(frozen=True)
class Server:
    """A server's URL and process."""

    url: str
    pid: int


@contextmanager
def ours() -> Iterator[Server]:
    """Run the server of `make run` on the engine that the environment names."""
    with TemporaryDirectory() as local:
        port = engines.free_port()
        environment = {**os.environ, "LOCAL_DIR": local, "PORT": str(port)}
        with running([sys.executable, "-m", "infra.local.run"], port, environment) as server:
            yield server


@contextmanager
def stock() -> Iterator[Server]:
    """Run `chalice local` on the same engine."""
    port = engines.free_port()
    chalice = Path(sys.executable).with_name("chalice")
    with running([str(chalice), "local", "--no-autoreload", "--port", str(port)], port, os.environ) as server:
        yield server


@contextmanager
def running(command: Sequence[str], port: int, environment: Mapping[str, str]) -> Iterator[Server]:
    """Run a server's command in this block, which begins when its port is open. Raises TimeoutError."""
    with signals.defer():
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        engines.await_port(port)
        yield Server(f"http://{HOST}:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()
