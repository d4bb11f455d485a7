"""The API over HTTP on this machine: served by `make run`, and by Chalice's own local server."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
    """Run what `make run` starts, on the engine that the environment names."""
    with TemporaryDirectory() as local:
        port = engines.free_port()
        command = [sys.executable, "-m", "infra.local.run"]
        with _process(command, port, LOCAL_DIR=str(Path(local)), PORT=str(port)) as server:
            yield server


@contextmanager
def stock() -> Iterator[Server]:
    """Run `chalice local` on the same engine."""
    port = engines.free_port()
    chalice = Path(sys.executable).with_name("chalice")
    with _process([str(chalice), "local", "--no-autoreload", "--port", str(port)], port) as server:
        yield server


@contextmanager
def _process(command: Sequence[str], port: int, **settings: str) -> Iterator[Server]:
    with signals.defer():
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        engines.await_port(port)
        yield Server(f"http://{HOST}:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()
