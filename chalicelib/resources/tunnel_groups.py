"""Tunnel groups: backends made of the online tunnels that carry all their labels. Without labels, of none."""

from typing import Annotated, Any

from chalicelib.api import fields, links
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call
from chalicelib.api.errors import Conflict
from chalicelib.api.fields import Described, Line, Name, Ref, Shown
from chalicelib.api.resource import EditableResource, New
from chalicelib.api.rules import entries, if_null, max_bytes, unless_nothing
from chalicelib.resources.tunnels import TUNNELS
from chalicelib.storage import table
from chalicelib.storage.items import Item

Labels = Annotated[dict[Name, Annotated[Line, max_bytes(255)]], entries(0, 50), if_null({})]


class Create(Described):
    labels: Labels = {}
    """What a tunnel must carry, all of it, to belong to the group; without labels none does."""


class Change(Create):
    labels: Annotated[Labels, unless_nothing] = {}


class TunnelGroupBackend(Create, Shown):
    """A backend made of the online tunnels that carry all its labels."""

    tunnels: list[Ref]
    """The online tunnels that carry all its labels."""


def make(caller: Caller, id: str, asked: Create) -> New:
    return New(fields.values(asked))


class _TunnelGroups(EditableResource):
    def shown(self, item: Item, call: Call) -> dict[str, Any]:
        (group,) = self.all_shown([item], call)
        return group

    def all_shown(self, items: list[Item], call: Call) -> list[dict[str, Any]]:
        """As any other, but the tunnels are read once for all groups, and only if one of them has labels."""
        online = table.newest(call.caller.scope(TUNNELS.path)) if any(item.body["labels"] for item in items) else []
        return [self._with_tunnels(item, online, call) for item in items]

    def _with_tunnels(self, item: Item, online: list[Item], call: Call) -> dict[str, Any]:
        tunnels = [links.ref(call.base_url, tunnel.id) for tunnel in online if _carries(tunnel, item.body["labels"])]
        return {**super().shown(item, call), "tunnels": tunnels}


def _carries(tunnel: Item, labels: dict[str, str]) -> bool:
    """Whether a tunnel has all the labels, of which there must be one: tunnels of agents have none."""
    return bool(labels) and labels.items() <= tunnel.body.get("labels", {}).items()


TUNNEL_GROUPS = _TunnelGroups(
    prefix="bkdtg",
    path="/backends/tunnel_group",
    items="backends",
    create=Create,
    change=Change,
    shows=TunnelGroupBackend,
    make=make,
    refuses={"DELETE": (Conflict,)},
)
