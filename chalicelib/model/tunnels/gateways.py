"""Gateways that are up, and their addresses. Only the gateway writes its record, and it expires with its lease."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from chalicelib import clock
from chalicelib.model.audit import trail
from chalicelib.model.base import records
from chalicelib.model.base.records import Stored
from chalicelib.model.changes import Change
from chalicelib.model.tunnels.tunnels import GATEWAYS
from chalicelib.storage.records import direct_writes, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.writes import Overtaken


@dataclass(frozen=True)
class Gateway:
    """A gateway, and the address at which edge hosts connect to its tunnels.

    `socket` is the path that an edge host on the same machine uses; it is not stored. SSH clients connect to
    `ssh_address` and verify one of `host_keys`, which are authorized_keys lines.
    """

    id: str
    host: str
    port: int
    socket: str = field(default="", compare=False)
    region: str = field(default="", compare=False)
    ssh_address: str = field(default="", compare=False)
    host_keys: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class _Record(Stored):
    """The record of a gateway. Gateways of earlier versions write only host and port."""

    host: str
    port: int
    region: str = ""
    ssh_address: str = ""
    host_keys: list[str] = field(default_factory=list)


def announce(gateway: Gateway, *, lease: int) -> None:
    """Register a gateway as up for `lease` seconds. Raises aws.Unavailable."""
    until = clock.seconds() + lease
    if not direct_writes.renew(GATEWAYS, gateway.id, lease=until):
        body = {
            "host": gateway.host,
            "port": gateway.port,
            "region": gateway.region,
            "ssh_address": gateway.ssh_address,
            "host_keys": [*gateway.host_keys],
        }
        direct_writes.put(GATEWAYS, gateway.id, body, lease=until)


def withdraw(id: str) -> None:
    """Remove the record of a gateway, also after its lease. Raises aws.Unavailable."""
    for gateway in (it for it in table.every(GATEWAYS) if it.id == id):
        with suppress(Overtaken):
            (Change(trail.EDGE).remove(gateway) if gateway.is_live else Change(trail.EDGE).end(gateway)).commit()


def read(id: str) -> Gateway | None:
    """Return a gateway, or None if it is not up. Raises aws.Unavailable."""
    found = table.find(GATEWAYS, id)
    return decode(found) if found else None


def decode(item: Item) -> Gateway | None:
    """Return the gateway of an item, or None if it is malformed."""
    return next((_decode(found, stored) for found, stored in records.decoded(_Record, [item])), None)


def list_gateways() -> list[tuple[Gateway, bool]]:
    """Return all gateways, and whether each is up. Raises aws.Unavailable.

    The tunnels of a gateway that is down may still have records.
    """
    found = records.decoded(_Record, table.every(GATEWAYS))
    return [(_decode(item, stored), item.is_live) for item, stored in found]


def list_for_clients() -> list[Gateway]:
    """Return the gateways that are up, one for each SSH address and region, with all its host keys.

    Gateways that announce no SSH address are left out. One Query. Raises aws.Unavailable.
    """
    found = records.decoded(_Record, table.newest(GATEWAYS))
    return _merge(_decode(item, stored) for item, stored in found if stored.ssh_address)


def _merge(found: Iterable[Gateway]) -> list[Gateway]:
    merged: dict[tuple[str, str], Gateway] = {}
    for gateway in found:
        first = merged.setdefault((gateway.region, gateway.ssh_address), gateway)
        keys = tuple(sorted({*first.host_keys, *gateway.host_keys}))
        merged[gateway.region, gateway.ssh_address] = replace(first, host_keys=keys)
    return [merged[key] for key in sorted(merged)]


def _decode(item: Item, stored: _Record) -> Gateway:
    return Gateway(
        item.id,
        stored.host,
        stored.port,
        region=stored.region,
        ssh_address=stored.ssh_address,
        host_keys=tuple(stored.host_keys),
    )
