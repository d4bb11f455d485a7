"""Tunnels that are online (SPEC 2.8): read over HTTP, written by tunnel servers through the functions here.

A tunnel is online while its lease runs: one that its server does not renew is gone at once.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chalicelib import clock, ids
from chalicelib.api import accounts, links
from chalicelib.api.endpoints import Call
from chalicelib.api.fields import Ref, Shape, Timestamp
from chalicelib.api.resource import Resource
from chalicelib.storage import table
from chalicelib.storage.items import Item

_REFS = ("tunnel_session", "endpoint", "backends")
Proto = Literal["http", "https", "tcp", "tls"]


class Tunnel(Shape):
    """A tunnel that is online, of an agent or for backends; each carries only the fields of its kind."""

    model_config = {"json_schema_serialization_defaults_required": False}

    id: str
    """Unique identifier; the order of ids is the order of creation."""

    started_at: Timestamp
    """When it was started, RFC 3339."""

    metadata: str
    """User-supplied metadata from the agent configuration; in version 0, from another option of it."""

    region: str
    """Identifier of the region where the tunnel runs."""

    tunnel_session: Ref
    """The tunnel session the tunnel was started on."""

    forwards_to: str
    """Upstream address (URL or network address) the agent forwards traffic to."""

    proto: Proto = "http"
    """Protocol of an ephemeral tunnel; present for agent-initiated tunnels."""

    public_url: str = ""
    """URL of the ephemeral tunnel's public endpoint; present for agent-initiated tunnels."""

    endpoint: Ref = Ref()
    """The ephemeral endpoint; present for agent-initiated tunnels."""

    labels: dict[str, str] = {}
    """Labels the tunnel group backends match against; present for backend tunnels."""

    backends: Ref = Ref()
    """Tunnel group backend served by a backend tunnel, if any."""


@dataclass(frozen=True, kw_only=True)
class _Tunnel:
    """What both kinds carry. Ids of other resources become Refs where they are shown.

    `metadata_0` is what API version 0 shows as metadata: there it came from another option of the agent.
    """

    tunnel_session: str
    region: str
    forwards_to: str
    metadata: str = ""
    metadata_0: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentTunnel(_Tunnel):
    """A tunnel with an ephemeral endpoint of its own."""

    endpoint: str
    proto: Proto
    public_url: str


@dataclass(frozen=True, kw_only=True)
class BackendTunnel(_Tunnel):
    """A tunnel that serves the tunnel group backends that match its labels; `backends` is the id of one, if any."""

    labels: Mapping[str, str]
    backends: str = ""


def open_tunnel(account: str, tunnel: AgentTunnel | BackendTunnel, *, lease: int) -> str:
    """Bring a tunnel online for `lease` seconds; its id. Raises aws.Unavailable."""
    id = ids.new(TUNNELS.prefix)
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


def _scope(account: str) -> str:
    return accounts.scope(account, TUNNELS.path)


def _end(lease: int) -> int:
    return int(clock.now().timestamp()) + lease


def _show(entry: dict[str, Any], call: Call) -> dict[str, Any]:
    older = entry.pop("metadata_0")
    # A tunnel has no address in SPEC 2.8, and one that serves no tunnel group no Ref to it.
    shown = {name: value for name, value in entry.items() if name != "uri" and (name, value) != ("backends", "")}
    refs = {name: links.ref(call.base_url, shown[name]) for name in _REFS if shown.get(name)}
    return {**shown, **refs, "metadata": older if call.caller.version == "0" else shown["metadata"]}


TUNNELS = Resource(prefix="tn", path="/tunnels", items="tunnels", shows=Tunnel, show=_show)
