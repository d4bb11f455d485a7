"""The gateway's SSH host key: its files, and the formats in which ssh shows it."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from edge.process import files
from edge.process.settings import Settings

_FILE = "ssh_host_ed25519_key"  # the private key, in the folder EDGE_DIR


def private_file(settings: Settings) -> Path:
    """Return the path of the private host key: SSH_HOST_KEY, or a file in the folder EDGE_DIR."""
    return Path(settings.ssh_host_key) if settings.ssh_host_key else settings.directory / _FILE


def _public_file(settings: Settings) -> Path:
    return settings.directory / f"{_FILE}.pub"


def write(settings: Settings, public_key: str) -> None:
    """Write the public key into the folder EDGE_DIR, in the format of ssh-keygen."""
    files.replace(_public_file(settings), f"{public_key}\n".encode(), mode=0o644)


@dataclass(frozen=True)
class HostKey:
    """A public SSH host key.

    `fingerprint` is the text that ssh shows, such as "SHA256:…". `known_hosts_line` is the line for the file
    known_hosts.
    """

    fingerprint: str
    known_hosts_line: str


def read(settings: Settings) -> HostKey:
    """Return the gateway's public host key from the folder EDGE_DIR. Raises OSError."""
    kind, key = _public_file(settings).read_text().split()[:2]
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(key)).digest()).decode().rstrip("=")
    host = settings.host if settings.ssh_port == 22 else f"[{settings.host}]:{settings.ssh_port}"
    return HostKey(f"SHA256:{digest}", f"{host} {kind} {key}")
