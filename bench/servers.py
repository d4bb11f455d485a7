"""The API over HTTP on this machine: served by `make run`, and by Chalice's own local server."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import engines
from infra import ROOT
from infra.local import signals
from infra.local.cloud import HOST


@contextmanager
def ours() -> Iterator[str]:
    """Run what `make run` starts, on the engine that the environment names, and yield its URL."""
    with TemporaryDirectory() as local:
        port = engines.free_port()
        command = [sys.executable, "-m", "infra.local.run"]
        with _process(command, port, LOCAL_DIR=str(Path(local)), PORT=str(port)) as url:
            yield url


@contextmanager
def stock() -> Iterator[str]:
    """Run `chalice local` on the same engine, and yield its URL."""
    port = engines.free_port()
    chalice = Path(sys.executable).with_name("chalice")
    with _process([str(chalice), "local", "--no-autoreload", "--port", str(port)], port) as url:
        yield url


@contextmanager
def _process(command: Sequence[str], port: int, **settings: str) -> Iterator[str]:
    with signals.defer():
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        engines.await_port(port)
        yield f"http://{HOST}:{port}"
    finally:
        process.terminate()
        process.wait()
