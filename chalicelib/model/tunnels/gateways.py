"""Gateways: their records, leases and ends.

A gateway has one lease, in its record. Its tunnels are online while the lease runs. A gateway is live while its lease
runs, lapsed when the lease is over, and ended when its record contains `ended`. An ended gateway never becomes live
again.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib import clock
from chalicelib.model.base import records
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.base.records import Stored
from chalicelib.model.tunnels import ends
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, Write
from chalicelib.storage.records import direct_writes, items, table
from chalicelib.storage.records.items import Item

GATEWAYS = items.scope(EDGE, "/gateways")

_NEW = Condition("attribute_not_exists(#id)")
_ENDED = Condition("attribute_exists(#body.#ended)")


@dataclass(frozen=True)
class Gateway:
    """A gateway, and the address at which edge hosts connect to its tunnels.

    Edge hosts on the same machine connect to `socket`, a path that is not stored. All others connect to `port` of
    `host`. If a gateway accepts connections at several ports, `port` is the newest of them. SSH clients connect to
    `ssh_address` and verify one of `host_keys`, which are authorized_keys lines. A `draining` gateway accepts no new
    SSH clients. `lease` is the Unix second at which the lease ends. `ended` is the Unix second at which the gateway was
    ended, or 0.
    """

    id: str
    host: str
    port: int
    socket: str = field(default="", compare=False)
    region: str = field(default="", compare=False)
    ssh_address: str = field(default="", compare=False)
    host_keys: tuple[str, ...] = field(default=(), compare=False)
    draining: bool = field(default=False, compare=False)
    lease: int = field(default=0, compare=False)
    ended: int = field(default=0, compare=False)

    @property
    def is_live(self) -> bool:
        return not self.ended and self.lease > clock.seconds()

    def seconds_to_next_state(self) -> float:
        """Return the seconds until the gateway's state changes next: until its lease ends.

        After the end of the lease, return the seconds until other processes may end the gateway. After that, and for an
        ended gateway, return infinity.
        """
        moments = () if self.ended else (self.lease, self.lease + clock_skew() + 1)
        return min((moment - clock.seconds() for moment in moments if moment > clock.seconds()), default=float("inf"))

    def has_lapsed(self, seconds: int) -> bool:
        """Return whether the lease has been over for more than some seconds."""
        return self.lease + seconds < clock.seconds()


@dataclass(frozen=True, kw_only=True)
class _Record(Stored):
    """The record of a gateway. Gateways of earlier versions write at most the first five fields.

    After a gateway has ended, one edge host ends the gateway's tunnels. Until the Unix second `swept_until`, no other
    edge host does so.
    """

    host: str
    port: int
    region: str = ""
    ssh_address: str = ""
    host_keys: list[str] = field(default_factory=list)
    draining: bool = False
    ended: int = 0
    swept_until: int = 0


def announce(gateway: Gateway, *, lease: int) -> bool:
    """Register a new gateway, live for `lease` seconds. Return False if its id was used. Raises aws.Unavailable."""
    body = {
        "host": gateway.host,
        "port": gateway.port,
        "region": gateway.region,
        "ssh_address": gateway.ssh_address,
        "host_keys": [*gateway.host_keys],
        "draining": gateway.draining,
    }
    sets = {"body": body, "schema": OLDEST_FORMAT, "lease": clock.seconds() + lease}
    return direct_writes.do_logged(Write.update(GATEWAYS, gateway.id, _NEW, sets=sets, adds={"revision": 1}))


def renew(id: str, *, lease: int) -> bool:
    """Renew the lease of a live gateway. Return False if its lease is over or it is ended. Raises aws.Unavailable."""
    return direct_writes.do_if(Write.update(GATEWAYS, id, _require_live(), sets={"lease": clock.seconds() + lease}))


def change(gateway: Gateway) -> bool:
    """Store the port at which a live gateway accepts connections from Envoy, and whether the gateway drains. The lease
    is unchanged.

    Return False if its lease is over or it is ended. Raises aws.Unavailable.
    """
    sets = {"body.port": gateway.port, "body.draining": gateway.draining}
    return direct_writes.do_logged(Write.update(GATEWAYS, gateway.id, _require_live(), sets=sets, adds={"revision": 1}))


def fence(id: str) -> bool:
    """End a gateway if its lease and the clock skew are over. All its tunnels are then offline.

    Return False if the lease is not over, or if the gateway has ended already. Raises aws.Unavailable.
    """
    return direct_writes.do_logged(end_by_fence(id))


def end_by_fence(id: str) -> Write:
    """Return the write that ends a gateway. The write fails unless the gateway's lease and the clock skew are over.

    Use this write in a transaction that also takes a name or port from one of the gateway's tunnels.
    """
    lapsed = Condition(
        "#lease < :limit AND attribute_not_exists(#body.#ended)", {"limit": clock.seconds() - clock_skew()}
    )
    return Write.update(GATEWAYS, id, lapsed, sets={"body.ended": clock.seconds()}, adds={"revision": 1})


def leave(id: str) -> None:
    """End a gateway that stops, even if its lease runs.

    The gateway's own process calls this. Raises aws.Unavailable.
    """
    now = clock.seconds()
    running = Condition("attribute_exists(#id) AND attribute_not_exists(#body.#ended)")
    sets = {"body.ended": now, "lease": now}
    direct_writes.do_logged(Write.update(GATEWAYS, id, running, sets=sets, adds={"revision": 1}))


def end_lease(record: Mapping[str, Any] | None) -> list[Write] | None:
    """Return the writes that end a gateway.

    Return no writes if it is ended already, or if its record was deleted. Return None if the gateway must not be ended:
    its lease has not been over for `clock_skew` seconds, or its record is malformed.
    """
    if record is None:
        return []
    gateway_items = [Item.from_record(record)]
    gateway = next((_decode(item, stored) for item, stored in records.decode_each(_Record, gateway_items)), None)
    if gateway is None or not (gateway.ended or gateway.has_lapsed(clock_skew())):
        return None
    return [] if gateway.ended else [end_by_fence(gateway.id)]


def clock_skew() -> int:
    """Return the seconds from the end of a gateway's lease until other processes may end the gateway."""
    text = os.environ.get("CLOCK_SKEW", "")
    return int(text) if text.isascii() and text.isdecimal() else clock.MAX_SKEW


def claim_sweep(id: str, *, seconds: int) -> bool:
    """Claim, for some seconds, the task to end the tunnels of an ended gateway.

    Return False if another host has claimed it. Raises aws.Unavailable.
    """
    now = clock.seconds()
    free = "(attribute_not_exists(#body.#swept_until) OR #body.#swept_until <= :now)"
    condition = Condition(f"{_ENDED.text} AND {free}", {"now": now})
    return direct_writes.do_if(Write.update(GATEWAYS, id, condition, sets={"body.swept_until": now + seconds}))


def remove(id: str) -> None:
    """Delete the record of an ended gateway. The list of its tunnels must be empty. Raises aws.Unavailable."""
    direct_writes.do_logged(Write.delete(GATEWAYS, id, _ENDED))


def read(id: str) -> Gateway | None:
    """Return a gateway, or None if it is not live. Raises aws.Unavailable."""
    gateway = read_each([id]).get(id)
    return gateway if gateway and gateway.is_live else None


def read_each(ids: Iterable[str]) -> dict[str, Gateway]:
    """Return gateways by id, including those that are not live. One call reads up to 100. Raises aws.Unavailable."""
    gateway_items = map(Item.from_record, table.read_records((GATEWAYS, id) for id in sorted({*ids})).values())
    return {item.id: _decode(item, stored) for item, stored in records.decode_each(_Record, gateway_items)}


def decode(item: Item) -> Gateway | None:
    """Return the gateway of an item. Return None if it is malformed or not live."""
    gateways = (_decode(gateway_item, stored) for gateway_item, stored in records.decode_each(_Record, [item]))
    return next((gateway for gateway in gateways if gateway.is_live), None)


def list_gateways() -> list[Gateway]:
    """Return all gateways, including those that are not live. One query. Raises aws.Unavailable."""
    return [_decode(item, stored) for item, stored in records.decode_each(_Record, table.read_all(GATEWAYS))]


def list_for_clients() -> list[Gateway]:
    """Return the live gateways, one for each SSH address and region, with all its host keys.

    Gateways that drain or announce no SSH address are left out. One Query. Raises aws.Unavailable.
    """
    return _merge(
        gateway for gateway in list_gateways() if gateway.is_live and gateway.ssh_address and not gateway.draining
    )


def _merge(gateways: Iterable[Gateway]) -> list[Gateway]:
    merged: dict[tuple[str, str], Gateway] = {}
    for gateway in gateways:
        first = merged.setdefault((gateway.region, gateway.ssh_address), gateway)
        keys = tuple(sorted({*first.host_keys, *gateway.host_keys}))
        merged[gateway.region, gateway.ssh_address] = replace(first, host_keys=keys)
    return [merged[key] for key in sorted(merged)]


def _require_live() -> Condition:
    return Condition("#lease > :now AND attribute_not_exists(#body.#ended)", {"now": clock.seconds()})


def _decode(item: Item, stored: _Record) -> Gateway:
    return Gateway(
        item.id,
        stored.host,
        stored.port,
        region=stored.region,
        ssh_address=stored.ssh_address,
        host_keys=tuple(stored.host_keys),
        draining=stored.draining,
        lease=ends.lease_end(item),
        ended=stored.ended,
    )
