"""The gateways that the API lists, and the keys with which `te` signs in there. Does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunnel_edge.tunnels import requested


@dataclass(frozen=True)
class Gateway:
    """A gateway as `GET /gateways` describes it. `host_keys` are lines in the format of authorized_keys."""

    host: str
    port: int
    host_keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class SignIn:
    """The user name and the keys with which a connection signs in at a gateway.

    A key can have a certificate. Without `keys`, the keys of the SSH agent are used. `ends_at` is when a new connection
    must replace this one, in seconds since 1970, or None.
    """

    username: str
    keys: tuple[Any, ...] = ()
    ends_at: float | None = None


@dataclass(frozen=True)
class Service:
    """The content of `GET /gateways`."""

    gateways: tuple[Gateway, ...]
    domain: str
    tcp_ports: range


def parse_service(answer: Mapping[str, Any]) -> Service:
    """Return the content of `GET /gateways`, with the gateways that have an address and host keys."""
    ports = requested.parse_ports(str(answer.get("tcp_ports") or ""))
    return Service(parse_gateways(answer), str(answer.get("tunnel_domain") or ""), ports)


def parse_gateways(answer: Mapping[str, Any]) -> tuple[Gateway, ...]:
    """Return the gateways of `GET /gateways` that have an address and host keys."""
    gateways = []
    for item in answer.get("gateways") or ():
        host, _, port = str(item.get("address") or "").rpartition(":")
        if host and port.isdigit() and item.get("host_keys"):
            gateways.append(Gateway(host.strip("[]"), int(port), tuple(map(str, item["host_keys"]))))
    return tuple(gateways)
