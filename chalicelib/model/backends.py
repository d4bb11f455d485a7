"""Backends: what answers traffic. A group's tunnels, and a tunnel's group, follow from labels at any moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chalicelib.model import kinds, records, tunnels
from chalicelib.model.records import Described, References
from chalicelib.storage import items, table
from chalicelib.storage.items import Item


@dataclass(frozen=True, kw_only=True)
class HttpResponse(Described):
    """The stored form of a backend that answers every request alike."""

    status_code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class TunnelGroup(Described):
    """The stored form of a backend made of the online tunnels that carry all its labels; without labels, of none."""

    labels: Mapping[str, str] = field(default_factory=dict)

    AUDITED = ("labels",)


@dataclass(frozen=True, kw_only=True)
class Weighted(Described):
    """The stored form of a backend that shares traffic between others: their ids, each with its weight."""

    backends: Mapping[str, int] = field(default_factory=dict)

    AUDITED = ("backends",)

    def references(self) -> References:
        return {"backends": self.backends}


def find_tunnels(account: str, groups: Mapping[str, TunnelGroup]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the online tunnels of each tunnel group, by the group's id: one query, if one has labels.

    Raises aws.Unavailable.
    """
    online = tunnels.list_online(account) if any(group.labels for group in groups.values()) else []
    return {
        id: tuple(tunnel.id for tunnel in online if tunnels.has_all_labels(tunnel, group.labels))
        for id, group in groups.items()
    }


def find_groups(account: str, online: Sequence[Item]) -> dict[str, str]:
    """Return the id of the oldest tunnel group that each of some tunnels belongs to now, by the tunnel's id.

    One query, if one has labels. Raises aws.Unavailable.
    """
    labelled = [tunnel for tunnel in online if tunnel.body.get("labels")]
    found = table.newest(items.scope(account, kinds.TUNNEL_GROUPS.path)) if labelled else []
    groups = [(group.id, stored.labels) for group, stored in records.decoded(TunnelGroup, found)]
    # Of several groups of one tunnel the last stays, which is the oldest.
    return {tunnel.id: id for id, labels in groups for tunnel in labelled if tunnels.has_all_labels(tunnel, labels)}
