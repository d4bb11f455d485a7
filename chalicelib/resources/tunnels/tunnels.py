"""Online tunnels (SPEC 2.8). The API only reads them: gateways write them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.paging import Page
from chalicelib.http.resource import Resource
from chalicelib.model.base import kinds
from chalicelib.model.edges import backends
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.model.tunnels.tunnels import Proto
from chalicelib.schema.fields import Ref, Timestamp
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

_HIDDEN = {"metadata_0", "gateway", "credential", "address", "client", "proxy_protocol", "ip_policies"}
_REFS = ("tunnel_session", "endpoint")


class Tunnel(Shape):
    """An online tunnel, with the fields of its type: agent-initiated, or for backends."""

    model_config = {"json_schema_serialization_defaults_required": False}

    id: str
    """Unique identifier; the order of ids is the order of creation."""

    started_at: Timestamp
    """When the tunnel was started, RFC 3339."""

    metadata: str
    """User-supplied metadata from the agent configuration. In version 0, another option of the agent sets it."""

    region: str
    """Identifier of the region where the tunnel runs."""

    tunnel_session: Ref
    """The tunnel session in which the tunnel was started."""

    forwards_to: str
    """Upstream URL or network address to which the agent forwards traffic."""

    proto: Proto = "http"
    """Protocol of the ephemeral tunnel. Only for agent-initiated tunnels."""

    public_url: str = ""
    """URL of the ephemeral tunnel's public endpoint. Only for agent-initiated tunnels."""

    endpoint: Ref = Ref()
    """The ephemeral endpoint. Only for agent-initiated tunnels."""

    labels: dict[str, str] = {}
    """Labels that tunnel group backends match. Only for backend tunnels."""

    backends: Ref = Ref()
    """The tunnel group backend that the tunnel serves now: the oldest that matches its labels; absent if none does."""


def _build_responses(items: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    groups = backends.find_groups(call.caller.account, items)
    return [_build_response(item, groups.get(item.id), call) for item in items]


def _build_response(item: Item, group: str | None, call: Call) -> dict[str, Any]:
    """Return the response for a tunnel (SPEC 2.8). `group` is the id of its tunnel group, or None."""
    tunnel = tunnels.decode(item)
    stored = {name: value for name, value in tunnel.to_record().items() if name not in _HIDDEN}
    references = {name: stored.get(name) for name in _REFS} | {"backends": group}
    refs = {name: messages.ref(call.base_url, id) for name, id in references.items() if id}
    metadata = tunnel.metadata_0 if call.caller.version == "0" else tunnel.metadata
    return {"id": item.id, **stored, **refs, "metadata": metadata}


class Tunnels(Resource):
    """Online tunnels of both types: agent-initiated tunnels, and tunnels for backends."""

    def list_items(self, call: Call, page: Page) -> tuple[list[Item], bool]:
        """Return the online tunnels on a page of the list, and whether there may be more."""
        items, has_more = super().list_items(call, page)
        online = online_tunnels.keep_online(items)
        # One tunnel beyond the page shows that another page follows.
        count = page.limit + (len(online) < len(items))
        while has_more and len(online) < count:
            items, has_more = super().list_items(call, replace(page, before_id=items[-1].id))
            online += online_tunnels.keep_online(items)
        return online[: page.limit], has_more or len(online) > page.limit

    def get(self, call: Call) -> Item:
        item = super().get(call)
        if not online_tunnels.keep_online([item]):
            raise self.missing()
        return item

    def check(self, item: Item) -> None:
        tunnels.decode(item)


RESOURCE = Tunnels(kind=kinds.TUNNELS, stored=tunnels.StoredTunnel, response=Tunnel, to_responses=_build_responses)
