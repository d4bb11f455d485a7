"""Parses which tunnel and which local server a command names. Does no I/O."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from tunnel_edge.errors import USAGE, CommandError

_NAME = re.compile(r"[A-Za-z0-9*_-]+(\.[A-Za-z0-9_-]+)*\.?")
_LABEL = re.compile(r"[^,=*]+=[^,*]+")
_LOOPBACK = "127.0.0.1"
_FORMS = "write a port (3000), HOST:PORT, or a URL such as http://localhost:3000"


@dataclass(frozen=True)
class LocalServer:
    """The address of the local server, to which a tunnel forwards."""

    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https://' if self.is_tls else ''}{host}:{self.port}"


@dataclass(frozen=True)
class RequestedTunnel:
    """The tunnel that a command requests.

    Without a name and labels, the gateway chooses a random name. For a TCP tunnel without a port, the gateway chooses a
    random port.
    """

    proto: Literal["http", "tls", "tcp"]
    name: str = ""
    labels: tuple[str, ...] = ()
    port: int = 0

    @property
    def listen_host(self) -> str:
        """Return the host of the SSH request `tcpip-forward`, which opens the tunnel."""
        return ",".join(self.labels) or self.name or "localhost"

    @property
    def listen_port(self) -> int:
        """Return the port of the SSH request `tcpip-forward`. For a name, 80 means HTTP, and 443 means TLS."""
        if self.labels or self.proto == "http":
            return 80
        return self.port if self.proto == "tcp" else 443

    def rules(self, domain: str, tcp_ports: Sequence[int]) -> tuple[str, ...]:
        """Return the ACL rules that permit the tunnel. For a TCP tunnel without a port, they permit all `tcp_ports`."""
        if self.labels:
            return tuple(f"bind:{label}" for label in self.labels)
        if self.proto == "tcp":
            return tuple(f"bind:{domain}:{port}" for port in ([self.port] if self.port else tcp_ports))
        return (f"bind:{self.full_name(domain) if self.name else f'*.{domain}'}",)

    def full_name(self, domain: str) -> str:
        """Return the full name of the tunnel. A name without a dot gets the domain of the service."""
        name = self.name.lower().removesuffix(".")
        return name if "." in name else f"{name}.{domain}"


def parse_server(text: str) -> LocalServer:
    """Parse PORT, HOST:PORT, or a URL. Raises CommandError."""
    if text.isdigit():
        return _server(_LOOPBACK, text, text)
    if "://" not in text:
        host, _, number = text.rpartition(":")
        return _server(host.strip("[]"), number, text)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or parts.path not in ("", "/") or parts.query or parts.username:
        raise CommandError(f"{text} is not an address of a local server: {_FORMS}.", USAGE)
    is_tls = parts.scheme == "https"
    try:
        port = parts.port or (443 if is_tls else 80)
    except ValueError:
        port = -1
    return _server(parts.hostname or "", str(port), text, is_tls=is_tls)


def check_name(name: str) -> str:
    """Return the name if it has only characters of a domain. Raises CommandError otherwise."""
    if not _NAME.fullmatch(name):
        raise CommandError(f"--name: '{name}' is not a name: use letters, digits, hyphens and dots, like demo.", USAGE)
    return name


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels if each has the form key=value. Raises CommandError otherwise."""
    for label in (checked := tuple(labels)):
        if not _LABEL.fullmatch(label):
            raise CommandError(f"--label: '{label}' is not a label: write name=value, without commas and stars.", USAGE)
    return checked


def parse_ports(text: str) -> range:
    """Return the ports in a text such as 20000-20099. Return no ports for any other text."""
    first, _, last = text.partition("-")
    return range(int(first), int(last) + 1) if first.isdigit() and last.isdigit() else range(0)


def _server(host: str, port: str, text: str, *, is_tls: bool = False) -> LocalServer:
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise CommandError(f"{text} is not an address of a local server: {_FORMS}.", USAGE)
    return LocalServer(host, int(port), is_tls)
