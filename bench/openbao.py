"""A peer: OpenBao's SSH engine in its development server, which signs from memory and keeps no record of a certificate.

Neither accounts nor a store, no policy of ours, no audit event: what it does in a request is the least that a server
of certificates can do.
"""

import json
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import engines
from infra.local import signals
from infra.local.cloud import HOST

SIGN = "/v1/ssh/sign/user"  # the path that signs
_BAO = Path(sys.executable).with_name("bao")


@dataclass(frozen=True)
class Peer:
    """A server with an authority of an ed25519 key: its process, its URL, and the headers that let in."""

    pid: int
    url: str
    headers: dict[str, str]


def is_there() -> bool:
    """Tell whether OpenBao is installed: it comes from the package index when `make bench` first runs."""
    return _BAO.exists()


@contextmanager
def started() -> Iterator[Peer]:
    """Run the server, with an authority that signs certificates of users. Raises TimeoutError, OSError."""
    port, token = engines.free_port(), secrets.token_hex(16)
    command = [str(_BAO), "server", "-dev", f"-dev-listen-address={HOST}:{port}", "-dev-no-store-token"]
    with TemporaryDirectory() as home, signals.defer():
        process = subprocess.Popen(
            command,
            env={"HOME": home, "BAO_DEV_ROOT_TOKEN_ID": token},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        engines.await_port(port)
        peer = Peer(process.pid, f"http://{HOST}:{port}", {"X-Vault-Token": token, "Content-Type": "application/json"})
        _set_up(peer)
        yield peer
    finally:
        process.terminate()
        process.wait()


def request(public_key: str) -> dict[str, Any]:
    """Return the request for the certificate that `signing.request` asks the service for."""
    return {"public_key": public_key, "valid_principals": "alice", "cert_type": "user"}


def _set_up(peer: Peer) -> None:
    _post(peer, "/v1/sys/mounts/ssh", {"type": "ssh"})
    _post(peer, "/v1/ssh/config/ca", {"generate_signing_key": True, "key_type": "ed25519"})
    extensions = {"permit-pty": "", "permit-user-rc": ""}
    role = {"key_type": "ca", "allow_user_certificates": True, "allowed_users": "alice", "ttl": "24h"}
    _post(peer, "/v1/ssh/roles/user", {**role, "default_extensions": extensions})


def _post(peer: Peer, path: str, body: Any) -> None:
    """Send a request of the set-up, again while the server is still unsealing."""
    for pause in (0.1,) * 100:
        try:
            urllib.request.urlopen(
                urllib.request.Request(peer.url + path, json.dumps(body).encode(), peer.headers), timeout=10
            ).close()
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(pause)
        else:
            return
    raise TimeoutError("OpenBao is not ready.")
