"""Tunnels that are online (SPEC 2.8): opened, renewed and closed by tunnel servers through the functions here.

A tunnel is online while its lease runs: one that its server does not renew is gone at once.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.storage import items, table
from chalicelib.storage.items import Item

Proto = Literal["http", "https", "tcp", "tls"]


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """What both kinds carry; other resources are named by their ids.

    `metadata_0` is what API version 0 shows as metadata: there it came from another option of the agent.
    """

    tunnel_session: str
    region: str
    forwards_to: str
    metadata: str = ""
    metadata_0: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentTunnel(Tunnel):
    """A tunnel with an ephemeral endpoint of its own."""

    endpoint: str
    proto: Proto
    public_url: str


@dataclass(frozen=True, kw_only=True)
class BackendTunnel(Tunnel):
    """A tunnel that serves the tunnel group backends that match its labels; `backends` is the id of one, if any."""

    labels: Mapping[str, str]
    backends: str = ""


def of(item: Item) -> AgentTunnel | BackendTunnel:
    """Return the tunnel that an item holds."""
    stored = {name: value for name, value in item.body.items() if name != "started_at"}
    return BackendTunnel(**stored) if "labels" in stored else AgentTunnel(**stored)


def open_tunnel(account: str, tunnel: AgentTunnel | BackendTunnel, *, lease: int) -> str:
    """Bring a tunnel online for `lease` seconds; return its id. Raises aws.Unavailable."""
    id = ids.new(kinds.TUNNELS.prefix)
    body = {"started_at": clock.rfc3339(ids.created_at(id)), **asdict(tunnel)}
    table.create(Item(_scope(account), id, body, expires=_end(lease)))
    return id


def renew_lease(account: str, id: str, *, lease: int) -> bool:
    """Keep a tunnel online for `lease` seconds from now; False when it is not online any more. Raises aws.Unavailable.

    A tunnel whose lease ran out cannot be renewed: it has been seen as gone. Open another.
    """
    return table.renew(_scope(account), id, expires=_end(lease))


def close_tunnel(account: str, id: str) -> bool:
    """Take a tunnel offline; False when it was not online. Raises aws.Unavailable."""
    return table.delete(_scope(account), id)


def online(account: str) -> list[Item]:
    """Return the tunnels of an account that are online, newest first. Raises aws.Unavailable."""
    return table.newest(_scope(account))


def carries(tunnel: Item, labels: Mapping[str, Any]) -> bool:
    """Whether a tunnel has all the labels, of which there must be one: tunnels of agents have none."""
    return bool(labels) and labels.items() <= tunnel.body.get("labels", {}).items()


def _scope(account: str) -> str:
    return items.scope(account, kinds.TUNNELS.path)


def _end(lease: int) -> int:
    return int(clock.now().timestamp()) + lease
