"""Backends: what answers traffic. `resolve` says what one means now: tunnels, a fixed answer, or shares of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chalicelib.model import kinds, tunnels
from chalicelib.storage import items, table
from chalicelib.storage.items import Item


@dataclass(frozen=True)
class HttpResponse:
    """A fixed answer to every request."""

    id: str
    status_code: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class TunnelGroup:
    """The ids of the online tunnels, newest first, that carry all labels of a group."""

    id: str
    tunnels: tuple[str, ...]


@dataclass(frozen=True)
class Weighted:
    """Backends and the share of the traffic each of them gets, by their weights."""

    id: str
    shares: tuple[tuple["Backend", int], ...]


Backend = HttpResponse | TunnelGroup | Weighted


def resolve(account: str, id: str) -> Backend | None:
    """Return what answers the traffic of a backend now, or None when the account has no backend of that id.

    The children of a weighted backend that are unknown, weigh nothing or lead back to it have no share. Raises
    aws.Unavailable.
    """
    return _resolve(account, id, frozenset())


def members(account: str, groups: Sequence[Item]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the online tunnels of each tunnel group, by the group's id: one query, if one has labels.

    Raises aws.Unavailable.
    """
    online = tunnels.online(account) if any(group.body["labels"] for group in groups) else []
    return {
        group.id: tuple(tunnel.id for tunnel in online if tunnels.carries(tunnel, group.body["labels"]))
        for group in groups
    }


def serving(account: str, online: Sequence[Item]) -> dict[str, str]:
    """Return the id of the oldest tunnel group that each of some tunnels belongs to now, by the tunnel's id.

    One query, if one has labels. Raises aws.Unavailable.
    """
    labelled = [tunnel for tunnel in online if tunnel.body.get("labels")]
    groups = table.newest(items.scope(account, kinds.TUNNEL_GROUPS.path)) if labelled else []
    return {  # of several groups of one tunnel the last stays, which is the oldest
        tunnel.id: group.id for group in groups for tunnel in labelled if tunnels.carries(tunnel, group.body["labels"])
    }


def _resolve(account: str, id: str, above: frozenset[str]) -> Backend | None:
    item = table.read(items.scope(account, kinds.of(id).path), id)
    if item is None:
        return None
    match kinds.of(id):
        case kinds.HTTP_RESPONSE_BACKENDS:
            return HttpResponse(id, item.body["status_code"], item.body["headers"], item.body["body"])
        case kinds.TUNNEL_GROUPS:
            return TunnelGroup(id, members(account, [item])[id])
        case _:
            return _weighted(account, item, above | {id})


def _weighted(account: str, item: Item, above: frozenset[str]) -> Weighted:
    children = [(child, weight) for child, weight in item.body["backends"].items() if weight and child not in above]
    found = [(_resolve(account, child, above), weight) for child, weight in children]
    return Weighted(item.id, tuple((backend, weight) for backend, weight in found if backend))
