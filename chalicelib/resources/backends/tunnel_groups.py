"""Tunnel groups: backends that consist of the online tunnels with all their labels.

A group without labels is empty.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from chalicelib.http import messages
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, show_fields
from chalicelib.model.base import kinds, records
from chalicelib.model.edges import backends
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.schema.fields import DescribedShape, Line, Name, Ref, Shown
from chalicelib.schema.rules import entries, if_null, max_bytes, unless_nothing
from chalicelib.storage.records.items import Item

Labels = Annotated[dict[Name, Annotated[Line, max_bytes(255)]], entries(0, 50), if_null({})]


class GroupCreate(DescribedShape):
    labels: Labels = {}
    """A tunnel belongs to the group if it has all these labels. A group without labels has no tunnels."""


class GroupChange(GroupCreate):
    labels: Annotated[Labels, unless_nothing] = {}


class TunnelGroupBackend(GroupCreate, Shown):
    """A backend of the online tunnels that have all its labels."""

    tunnels: list[Ref]
    """The online tunnels that have all its labels."""


def _build_responses(groups: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    members = backends.find_tunnels(
        call.caller.account, {group.id: records.decode(TunnelGroup, group) for group in groups}
    )
    return [
        {
            **show_fields(TunnelGroup, group, call),
            "tunnels": [messages.ref(call.base_url, id) for id in members[group.id]],
        }
        for group in groups
    ]


RESOURCE = EditableResource(
    kind=kinds.TUNNEL_GROUPS,
    stored=TunnelGroup,
    create=GroupCreate,
    change=GroupChange,
    response=TunnelGroupBackend,
    to_responses=_build_responses,
    errors={"DELETE": (Conflict,)},
)
