"""The history of names: which tunnel or edge used a name, and when.

The history is stored as long as audit events. The transaction that opens a tunnel stores a record under the tunnel's
name. The transaction that ends the tunnel adds the end to this record. A record of an edge is stored
under a hostport, shortly before a change takes this hostport from the edge.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chalicelib import clock, ids
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.base.records import NotReady
from chalicelib.model.names import listed_edges
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import decoding, items, table
from chalicelib.storage.records.items import Item

_REPEATED = ("credential", "address", "client", "gateway", "tunnel_session", "started_at")


@dataclass(frozen=True)
class TunnelRecord:
    """A tunnel that used a name. `ended_at` is "" until its end is recorded."""

    account: str
    tunnel: str
    credential: str
    address: str
    client: str
    gateway: str
    tunnel_session: str
    started_at: str
    ended_at: str = ""


@dataclass(frozen=True)
class FormerEdge:
    """An edge in the history of a hostport. It used the hostport until `ended_at`, which is "" if the edge still uses
    the hostport.

    The edge's audit events show when the edge began to use the hostport.
    """

    account: str
    edge: str
    created_at: str
    ended_at: str = ""


def record_tunnel(
    name: str, account: str, id: str, body: Mapping[str, Any], *, ended: int | None = None
) -> list[Write]:
    """Return the write that records in the history that a tunnel uses a name. Return no write for the name "".

    `ended` is the Unix second of the tunnel's end, None while it is online.
    """
    if not name:
        return []
    record = _OpenTunnel(name, id, {"account": account, **{field: body.get(field, "") for field in _REPEATED}})
    if ended is None:
        return [Write.put(record.to_item().to_record())]
    sets = {"body.ended_at": clock.rfc3339(clock.at(ended)), "expires": trail.find_expiry(clock.at(ended))}
    there = Condition("attribute_exists(#body)")
    return [Write.update(_scope(name), id, there, sets=sets, adds={"revision": 1}, failing=_Missing(record))]


@dataclass(frozen=True)
class _OpenTunnel:
    """The record of an online tunnel in the history of the tunnel's name. Such a record has no end yet."""

    name: str
    id: str
    body: dict[str, Any]

    def to_item(self) -> Item:
        return Item(_scope(self.name), self.id, self.body, expires=trail.find_expiry(ids.created_at(self.id)))


class _Missing(NotReady):
    """The history of a name lacks the record of a tunnel, for example because an earlier version opened the tunnel.

    `make_room` adds the record.
    """

    def __init__(self, record: _OpenTunnel) -> None:
        super().__init__(record.id)
        self._record = record

    def make_room(self) -> bool:
        with suppress(ConditionFailed):
            dynamodb.do(Write.put(self._record.to_item().to_record(), Condition("attribute_not_exists(#id)")))
        return True


def find_tunnel(name: str, second: int) -> TunnelRecord | None:
    """Return the latest tunnel that opened with a name, up to a Unix second. Return None without such a tunnel.

    The tunnel may have ended before this second. One read. Raises aws.Unavailable.
    """
    entries, _ = table.read_page(_scope(name), before=ids.first_at(kinds.TUNNELS.prefix, second + 1), count=1)
    return decoding.decode(TunnelRecord, {**entries[0].body, "tunnel": entries[0].id}) if entries else None


def record_former_edge(before: Item, after: Item | None) -> None:
    """Record each hostport that a change takes from an edge. Raises aws.Unavailable.

    Call this function before the change. If the change fails, the record does no harm.
    """
    old, new = (listed_edges.hostports(item) if item else () for item in (before, after))
    now = clock.now()
    fields = {"account": before.account, "edge": before.id, "created_at": before.body.get("created_at", "")}
    body, id = {**fields, "ended_at": clock.rfc3339(now)}, ids.strip_prefix(ids.new("end"))
    expires = trail.find_expiry(now)
    writes = [
        Write.put(Item(_hostport_scope(hostport), id, body, expires=expires).to_record())
        for hostport in old
        if hostport not in new
    ]
    if writes:
        dynamodb.transact(writes)


def read_former_edges(hostport: str) -> Iterator[FormerEdge]:
    """Yield the edges that no longer use a hostport, latest first. Raises aws.Unavailable."""
    for item in table.list_newest(_hostport_scope(hostport)):
        yield decoding.decode(FormerEdge, item.body)


def _hostport_scope(hostport: str) -> str:
    return items.scope(EDGE, f"/left_hostports/{hostport}")


def _scope(name: str) -> str:
    return items.scope(EDGE, f"/served_names/{name}")
