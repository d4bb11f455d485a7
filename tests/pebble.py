"""Debian's pebble: a CA for tests."""

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import openssl
from tests.conftest import free_port
from tests.needs import need


@dataclass(frozen=True)
class Pebble:
    """A pebble that runs. `bundle` is the file with its certificate for `localhost`, `key` that of its private key."""

    port: int
    bundle: Path
    key: Path

    @property
    def directory(self) -> str:
        return f"https://localhost:{self.port}/dir"


@contextmanager
def run_pebble(folder: Path, *, http_port: int = 1, name_server: str = "", **settings: int) -> Iterator[Pebble]:
    """Run a pebble that validates at a port, with the addresses of a name server. It rejects no nonces.

    `settings` are further variables of pebble, without their prefix.
    """
    need("pebble")
    folder.mkdir()
    issued = openssl.issue("/CN=localhost", extensions=("subjectAltName=DNS:localhost",))
    pebble = Pebble(free_port(), folder / "certificate", folder / "key")
    pebble.bundle.write_text(issued.certificate)
    pebble.key.write_text(issued.key)
    config = {
        "listenAddress": f"127.0.0.1:{pebble.port}",
        "certificate": str(pebble.bundle),
        "privateKey": str(pebble.key),
        "httpPort": http_port,
        "tlsPort": 1,
    }
    (folder / "config.json").write_text(json.dumps({"pebble": config}))
    chosen = {"VA_NOSLEEP": 1, "WFE_NONCEREJECT": 0, "AUTHZREUSE": 0, **settings}
    environment = {**os.environ, **{f"PEBBLE_{name}": str(value) for name, value in chosen.items()}}
    resolver = ["-dnsserver", name_server] if name_server else []
    command = ["pebble", "-config", str(folder / "config.json"), *resolver]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            _wait_for(pebble)
            yield pebble
        finally:
            process.terminate()


def _wait_for(pebble: Pebble) -> None:
    """Wait until pebble completes handshakes."""
    context = ssl.create_default_context(cafile=pebble.bundle)
    for _ in range(200):
        try:
            with socket.create_connection(("127.0.0.1", pebble.port)) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
                return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError
