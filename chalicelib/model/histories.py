"""Who had a name, and when: kept as long as audit events, and found by the name with one read.

A tunnel has a record below its name from the transaction that opens it on; the one that ends it writes it again. An
edge has one below each hostport that it has given up, written before the transaction that does so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import clock, ids
from chalicelib.model import audit, kinds, listening
from chalicelib.model.kinds import EDGE
from chalicelib.storage import items, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

_REPEATED = ("credential", "address", "client", "gateway", "tunnel_session", "started_at")


@dataclass(frozen=True)
class TunnelRecord:
    """A tunnel that had a name. `ended_at` is "" while nobody has written that it has ended."""

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
    """An edge that listened on a hostport until `ended_at`, "" where it still does; its events tell since when."""

    account: str
    edge: str
    created_at: str
    ended_at: str = ""


def record_tunnel(
    name: str, account: str, id: str, body: Mapping[str, Any], *, ended: int | None = None
) -> list[Write]:
    """Return the write that records which tunnel has a name, none for the name "".

    `ended` is the Unix second of its end, None while it is online.
    """
    if not name:
        return []
    told = {"account": account, **{field: body.get(field, "") for field in _REPEATED}}
    ended_at = {} if ended is None else {"ended_at": clock.rfc3339(clock.at(ended))}
    expires = audit.kept_until(ids.created_at(id) if ended is None else clock.at(ended))
    return [Write.put(Item(_scope(name), id, {**told, **ended_at}, expires=expires).to_record())]


def find_tunnel(name: str, second: int) -> TunnelRecord | None:
    """Return the last tunnel that a name had at a Unix second or before, also one that had ended then.

    None where it had none. One read. Raises aws.Unavailable.
    """
    found, _ = table.page(_scope(name), before=ids.first_at(kinds.TUNNELS.prefix, second + 1), count=1)
    return TunnelRecord(tunnel=found[0].id, **found[0].body) if found else None


def record_former_edge(before: Item, after: Item | None) -> list[Write]:
    """Return the writes by which an edge is found by each hostport that a change takes from it."""
    old, new = (listening.hostports(item) if item else () for item in (before, after))
    now = clock.now()
    told = {"account": before.account, "edge": before.id, "created_at": before.body.get("created_at", "")}
    body, id, expires = {**told, "ended_at": clock.rfc3339(now)}, ids.unprefixed(ids.new("end")), audit.kept_until(now)
    return [Write.put(Item(_hostport_scope(it), id, body, expires=expires).to_record()) for it in old if it not in new]


def read_former_edges(hostport: str) -> Iterator[FormerEdge]:
    """Yield the edges that gave up a hostport, the latest first. Raises aws.Unavailable."""
    for found in table.newest(_hostport_scope(hostport)):
        yield FormerEdge(**found.body)


def _hostport_scope(hostport: str) -> str:
    return items.scope(EDGE, f"/left_hostports/{hostport}")


def _scope(name: str) -> str:
    return items.scope(EDGE, f"/served_names/{name}")
