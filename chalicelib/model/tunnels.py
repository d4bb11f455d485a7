"""Tunnels that are online (SPEC 2.8): opened, renewed and closed by tunnel servers through the functions here.

A tunnel is online while its lease runs: one that its server does not renew is gone at once. Its name is a unique key,
which the same credential takes over at once, and anybody when the tunnel is gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.model import audit, kinds
from chalicelib.model.audit import Trail
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken, UniqueKey

EDGE = "edge"  # in the place of an account: what the edge keeps for itself
GATEWAYS = items.scope(EDGE, "/gateways")  # a record's revision grows whenever what it carries may have changed
_NAME = "tunnel_name"
_BANNED = items.scope(EDGE, "/banned_names")
Proto = Literal["http", "https", "tcp", "tls"]


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """The fields of both kinds of tunnel; other resources are named by their ids.

    `metadata_0` is what API version 0 shows as metadata: there it came from another option of the agent. `gateway` is
    what carries it, and `credential` the SSH credential or user certificate that opened it: the API shows neither.
    """

    tunnel_session: str
    region: str
    forwards_to: str
    metadata: str = ""
    metadata_0: str = ""
    gateway: str = ""
    credential: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentTunnel(Tunnel):
    """A tunnel with an ephemeral endpoint of its own."""

    endpoint: str
    proto: Proto
    public_url: str


@dataclass(frozen=True, kw_only=True)
class BackendTunnel(Tunnel):
    """A tunnel that serves the tunnel group backends whose labels it carries, all of them."""

    labels: Mapping[str, str]


def of(item: Item) -> AgentTunnel | BackendTunnel:
    """Return the tunnel that an item holds."""
    own = {"started_at", "backends"}  # the first edition kept a group in `backends`: see backends.serving
    stored = {name: value for name, value in item.body.items() if name not in own}
    return BackendTunnel(**stored) if "labels" in stored else AgentTunnel(**stored)


@dataclass(frozen=True)
class Carried:
    """A tunnel in its gateway's list. `expires` is the Unix second of its end; the name of a backend tunnel is ""."""

    account: str
    id: str
    gateway: str
    name: str
    expires: int


def open_tunnel(
    account: str, tunnel: AgentTunnel | BackendTunnel, *, lease: int, name: str = "", by: Trail = audit.EDGE
) -> str:
    """Bring a tunnel online for `lease` seconds under a host name, if it has one; return its id.

    Raises Taken when a tunnel of another credential has the name, or the operator; aws.Unavailable.
    """
    id = ids.new(kinds.TUNNELS.prefix)
    body = {"started_at": clock.rfc3339(ids.created_at(id)), **asdict(tunnel)}
    keys = (_name_key(account, id, name, tunnel.credential),) if name else ()
    item = Item(_scope(account), id, body, unique_keys=keys, expires=_end(lease))
    table.create(item, *_carried(item, tunnel.gateway, name), by.made(item))
    return id


def renew_lease(account: str, id: str, *, lease: int) -> bool:
    """Keep a tunnel online for `lease` seconds from now; False when it is not online any more. Raises aws.Unavailable.

    A tunnel whose lease ran out cannot be renewed: it has been seen as gone. Open another.
    """
    return table.renew(_scope(account), id, expires=_end(lease))


def renew_leases(tunnels: Sequence[Carried], *, lease: int) -> frozenset[str]:
    """Keep tunnels of a gateway online for `lease` seconds from now; return the ids of those that are not any more.

    Raises aws.Unavailable.
    """
    places = [place for it in tunnels for place in ((_scope(it.account), it.id), (_carried_scope(it.gateway), it.id))]
    return frozenset(id for _, id in table.renew_all(places, expires=_end(lease)))


def close_tunnel(account: str, id: str, *, gateway: str = "", by: Trail = audit.EDGE) -> bool:
    """Take a tunnel offline, its name with it; False when it was not online. Raises aws.Unavailable.

    `gateway` is what carries it, and announces that afterwards; whoever is not that gateway leaves it out.
    """
    if gateway:  # it stops being served first
        table.delete(_carried_scope(gateway), id)
    elif (item := table.read(_scope(account), id)) and (gateway := item.body.get("gateway", "")):
        table.delete(_carried_scope(gateway), id)
        table.touch(GATEWAYS, gateway)
    return table.delete(_scope(account), id, also=by.telling("delete"))


def carried_by(gateway: str) -> list[Carried]:
    """Return the tunnels that a gateway carries, newest first. Raises aws.Unavailable."""
    found = table.newest(_carried_scope(gateway))
    return [Carried(item.body["account"], item.id, gateway, item.body["name"], item.expires or 0) for item in found]


def online(account: str) -> list[Item]:
    """Return the tunnels of an account that are online, newest first. Raises aws.Unavailable."""
    return table.newest(_scope(account))


def carries(tunnel: Item, labels: Mapping[str, Any]) -> bool:
    """Tell whether a tunnel has all the labels; False if there are none. Tunnels of agents have no labels."""
    return bool(labels) and labels.items() <= tunnel.body.get("labels", {}).items()


def ban_name(name: str) -> None:
    """Ban a host name: no tunnel can have it, and the one that has it is closed. Raises aws.Unavailable."""
    key = UniqueKey(_NAME, name)
    while True:
        try:
            return table.create(Item(_BANNED, name, {"created_at": clock.rfc3339(clock.now())}, unique_keys=(key,)))
        except Taken:
            if found := table.look_up(_NAME, name):
                close_tunnel(found["account"], found["id"], by=audit.OPERATOR)


def allow_name(name: str) -> bool:
    """Lift the ban of a host name; False when it was not banned. Raises aws.Unavailable."""
    return table.delete(_BANNED, name)


def is_banned(name: str) -> bool:
    """Tell whether the operator has banned a host name. Raises aws.Unavailable."""
    return table.read(_BANNED, name) is not None


def banned_names() -> list[str]:
    """Return the host names that no tunnel may have. Raises aws.Unavailable."""
    return sorted(item.id for item in table.newest(_BANNED))


def _name_key(account: str, id: str, name: str, credential: str) -> UniqueKey:
    successor = f"{account}/{credential}" if credential else ""
    return UniqueKey(_NAME, name, {"account": account, "id": id}, successor=successor)


def _carried(item: Item, gateway: str, name: str) -> tuple[Item, ...]:
    if not gateway:
        return ()
    body = {"account": item.account, "name": name}
    return (Item(_carried_scope(gateway), item.id, body, expires=item.expires),)


def _carried_scope(gateway: str) -> str:
    return items.scope(EDGE, f"/gateways/{gateway}/tunnels")


def _scope(account: str) -> str:
    return items.scope(account, kinds.TUNNELS.path)


def _end(lease: int) -> int:
    return int(clock.now().timestamp()) + lease
