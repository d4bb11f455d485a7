"""Gateways that are up: where each is reached, for as long as it says so. Only it writes what its record says."""

from dataclasses import dataclass

from chalicelib import clock
from chalicelib.model import audit, changes
from chalicelib.model.changes import Change
from chalicelib.model.tunnels import GATEWAYS
from chalicelib.storage import table


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
    table.put(GATEWAYS, gateway.id, body, expires=clock.seconds() + lease)


def withdraw(id: str) -> None:
    """Say that a gateway is down. Raises aws.Unavailable."""
    changes.delete(Change(audit.EDGE), GATEWAYS, id)


def up() -> list[tuple[Gateway, int]]:
    """Return the gateways that are up, each with a number that grows whenever what it carries may have changed.

    Raises aws.Unavailable.
    """
    found = table.newest(GATEWAYS)
    return [(Gateway(item.id, item.body["host"], item.body["port"]), item.revision) for item in found]
