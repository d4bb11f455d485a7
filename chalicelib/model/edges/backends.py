"""Backends, which answer traffic. A tunnel group contains the tunnels with its labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Described, References
from chalicelib.model.tunnels import online_tunnels
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item


@dataclass(frozen=True, kw_only=True)
class HttpResponse(Described):
    """The stored form of a backend with one fixed response."""

    status_code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class TunnelGroup(Described):
    """The stored form of a group of tunnels. The group contains all online tunnels that have all of its labels.

    A group without labels is empty.
    """

    labels: Mapping[str, str] = field(default_factory=dict)

    AUDITED = ("labels",)


@dataclass(frozen=True, kw_only=True)
class Weighted(Described):
    """The stored form of a backend that divides traffic among other backends. `backends` has their weights by id."""

    backends: Mapping[str, int] = field(default_factory=dict)

    AUDITED = ("backends",)

    def references(self) -> References:
        return {"backends": self.backends}


def find_tunnels(account: str, groups: Mapping[str, TunnelGroup]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the online tunnels of each group, by group id. Makes one query, or none if no group has labels.
    Raises aws.Unavailable.
    """
    online = online_tunnels.list_online(account) if any(group.labels for group in groups.values()) else []
    return {
        id: tuple(tunnel.id for tunnel in online if online_tunnels.has_all_labels(tunnel, group.labels))
        for id, group in groups.items()
    }


def find_groups(account: str, online: Sequence[Item]) -> dict[str, str]:
    """Return the id of the oldest group that contains each tunnel, by tunnel id.

    Tunnels without a group are left out. Makes one query, or none if no tunnel has labels. Raises aws.Unavailable.
    """
    labelled = [tunnel for tunnel in online if tunnel.body.get("labels")]
    group_items = table.list_newest(items.scope(account, kinds.TUNNEL_GROUPS.path)) if labelled else []
    groups = [(group.id, stored.labels) for group, stored in records.decode_each(TunnelGroup, group_items)]
    # For each tunnel, the entry of the oldest group comes last and replaces the entries of newer groups.
    return {
        tunnel.id: id for id, labels in groups for tunnel in labelled if online_tunnels.has_all_labels(tunnel, labels)
    }
