"""Gateways that are up: where each is reached, for as long as it says so. Only it writes what its record says."""

from contextlib import suppress
from dataclasses import dataclass, field

from chalicelib import clock
from chalicelib.model import audit, records
from chalicelib.model.changes import Change
from chalicelib.model.records import Stored
from chalicelib.model.tunnels import GATEWAYS
from chalicelib.storage import table
from chalicelib.storage.items import Item
from chalicelib.storage.writes import Overtaken


@dataclass(frozen=True)
class Gateway:
    """A gateway, and where edge hosts reach the tunnels that it carries.

    `socket` is the path at which an edge host does that is the gateway's own; no record has it.
    """

    id: str
    host: str
    port: int
    socket: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class _Record(Stored):
    """The record of a gateway."""

    host: str
    port: int


def announce(gateway: Gateway, *, lease: int) -> None:
    """Say that a gateway is up for `lease` seconds. Raises aws.Unavailable."""
    until = clock.seconds() + lease
    if not table.renew(GATEWAYS, gateway.id, lease=until):
        table.put(GATEWAYS, gateway.id, {"host": gateway.host, "port": gateway.port}, lease=until)


def withdraw(id: str) -> None:
    """Say that a gateway is down, also one whose lease has ended. Raises aws.Unavailable."""
    for gateway in (it for it in table.every(GATEWAYS) if it.id == id):
        with suppress(Overtaken):
            (Change(audit.EDGE).remove(gateway) if gateway.is_live else Change(audit.EDGE).end(gateway)).commit()


def read(id: str) -> Gateway | None:
    """Return a gateway, None where it is not up. Raises aws.Unavailable."""
    found = table.find(GATEWAYS, id)
    return next((_decode(found, stored) for _, stored in records.decoded(_Record, [found])), None) if found else None


def list_gateways() -> list[tuple[Gateway, bool]]:
    """Return all gateways, and whether each is up: of one that is not, the tunnels may not have been ended yet.

    Raises aws.Unavailable.
    """
    found = records.decoded(_Record, table.every(GATEWAYS))
    return [(_decode(item, stored), item.is_live) for item, stored in found]


def _decode(item: Item, stored: _Record) -> Gateway:
    return Gateway(item.id, stored.host, stored.port)
