"""Gateways that are up: where each is reached, for as long as it says so. Each writes its own record alone."""

from dataclasses import dataclass

from chalicelib.model.tunnels import EDGE
from chalicelib.storage import items, table

_SCOPE = items.scope(EDGE, "/gateways")


@dataclass(frozen=True)
class Gateway:
    """A gateway, and where edge hosts reach the tunnels that it carries."""

    id: str
    host: str
    port: int


def announce(gateway: Gateway, *, lease: int) -> None:
    """Say that a gateway is up for `lease` seconds, and that what it carries may have changed.

    Raises aws.Unavailable.
    """
    body = {"host": gateway.host, "port": gateway.port}
    table.put(_SCOPE, gateway.id, body, expires=items.now() + lease)


def withdraw(id: str) -> None:
    """Say that a gateway is down. Raises aws.Unavailable."""
    table.delete(_SCOPE, id)


def up() -> list[tuple[Gateway, int]]:
    """Return the gateways that are up, each with a number that grows whenever what it carries may have changed.

    Raises aws.Unavailable.
    """
    found = table.newest(_SCOPE)
    return [(Gateway(item.id, item.body["host"], item.body["port"]), item.revision) for item in found]
