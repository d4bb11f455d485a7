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
from chalicelib.storage import dynamodb, items, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

_REPEATED = ("credential", "address", "client", "gateway", "tunnel_session", "started_at")


@dataclass(frozen=True)
class Had:
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
class Listened:
    """An edge that listened on a hostport until `ended_at`, "" where it still does; its events tell since when."""

    account: str
    edge: str
    created_at: str
    ended_at: str = ""


def kept(name: str, account: str, id: str, body: Mapping[str, Any], *, ended: int | None = None) -> list[Write]:
    """Return the write that records which tunnel has a name, none for the name "".

    `ended` is the Unix second of its end, None while it is online.
    """
    if not name:
        return []
    told = {"account": account, **{field: body.get(field, "") for field in _REPEATED}}
    ended_at = {} if ended is None else {"ended_at": clock.rfc3339(clock.at(ended))}
    expires = audit.kept_until(ids.created_at(id) if ended is None else clock.at(ended))
    return [Write.put(Item(_scope(name), id, {**told, **ended_at}, expires=expires).to_record())]


def last(name: str, second: int) -> Had | None:
    """Return the last tunnel that a name had at a Unix second or before, also one that had ended then.

    None where it had none. One read. Raises aws.Unavailable.
    """
    found, _ = table.page(_scope(name), before=ids.first_at(kinds.TUNNELS.prefix, second + 1), count=1)
    return Had(tunnel=found[0].id, **found[0].body) if found else None


def record_left(before: Item, after: Item | None) -> None:
    """Record each hostport that a change takes from an edge, so that it leads to the edge later.

    Stored before the change, and harmless if the change fails. Raises aws.Unavailable.
    """
    old, new = (listening.hostports(item) if item else () for item in (before, after))
    now = clock.now()
    told = {"account": before.account, "edge": before.id, "created_at": before.body.get("created_at", "")}
    body, id, expires = {**told, "ended_at": clock.rfc3339(now)}, ids.unprefixed(ids.new("end")), audit.kept_until(now)
    left = [Write.put(Item(_left(it), id, body, expires=expires).to_record()) for it in old if it not in new]
    if left:
        dynamodb.transact(left)


def listened(hostport: str) -> Iterator[Listened]:
    """Yield the edges that gave up a hostport, the latest first. Raises aws.Unavailable."""
    for found in table.newest(_left(hostport)):
        yield Listened(**found.body)


def _left(hostport: str) -> str:
    return items.scope(EDGE, f"/left_hostports/{hostport}")


def _scope(name: str) -> str:
    return items.scope(EDGE, f"/served_names/{name}")
