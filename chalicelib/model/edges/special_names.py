"""The list of special names, for the live edge: hosts and ports that Envoy must know before a visitor comes.

Each edge or tunnel with such names has a separate record. The transaction that changes the edge or tunnel writes it, so
the change log names it too. Its id begins with the account: edge hosts of earlier versions treat an id in the log that
they cannot read as removed.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.edges import listening
from chalicelib.model.edges.modules import UPSTREAM
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.change_log import Place
from chalicelib.storage.records.items import Item

_PATH = "/special/"
_SHARDS = 16  # scopes; each takes 1,000 writes a second
_KINDS = (*kinds.EDGES, kinds.TUNNELS)
_DEFAULT_VERSIONS = (None, "", "1.2")  # of TLS


class SpecialOwner(NamedTuple):
    """The account and id of an edge or tunnel with special names."""

    account: str
    id: str


@dataclass(frozen=True)
class SpecialEntry:
    """The special hostports of an edge or tunnel, host:port.

    Some of them may not be special: the records of the edge or tunnel decide.
    """

    owner: SpecialOwner
    hostports: tuple[str, ...]


def list_edge(before: Item | None, after: Item | None) -> list[Write]:
    """Return the write that changes the entry of an edge. It is empty if the entry stays the same."""
    old, new = (_special_hostports(item) if item else () for item in (before, after))
    if new == old:
        return []
    if after and new:
        return [add(SpecialEntry(SpecialOwner(after.account, after.id), new))]
    return [remove(SpecialOwner(before.account, before.id))] if before else []


def add(entry: SpecialEntry) -> Write:
    """Return the write that adds or replaces an entry."""
    place, body = find_place(entry.owner), {"hostports": list(entry.hostports)}
    return Write.put({"scope": place.scope, "id": place.id, "body": body, "revision": 1})


def remove(owner: SpecialOwner) -> Write:
    """Return the write that removes the entry of an edge or tunnel, if there is one."""
    place = find_place(owner)
    return Write.delete(place.scope, place.id)


def is_listed(owner: SpecialOwner) -> bool:
    """Return whether an edge or tunnel has an entry. Raises aws.Unavailable."""
    place = find_place(owner)
    return dynamodb.get(place.scope, place.id) is not None


def every() -> Iterator[SpecialEntry | Place]:
    """Yield all entries, and the places of malformed ones. Raises aws.Unavailable."""
    for shard in range(_SHARDS):
        for item in table.every(_scope(shard)):
            place = Place(item.scope, item.id)
            yield _decode(find_owner(place), item.body) or place


def read(owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
    """Return the entries of edges and tunnels, without missing and malformed ones. Raises aws.Unavailable."""
    owned = {(place.scope, place.id): owner for owner in owners if (place := find_place(owner))}
    entries = (_decode(owned[place], record.get("body")) for place, record in table.records(owned).items())
    return {entry.owner: entry for entry in entries if entry}


def find_place(owner: SpecialOwner) -> Place:
    """Return the place of the entry of an edge or tunnel."""
    return Place(_scope(zlib.crc32(owner.id.encode()) % _SHARDS), f"{owner.account}/{owner.id}")


def find_owner(place: Place) -> SpecialOwner | None:
    """Return the owner of the entry at a place in the change log, or None if it is no entry."""
    account, _, id = place.id.partition("/")
    is_valid = kinds.ACCOUNTS.has(account) and any(kind.has(id) for kind in _KINDS)
    return SpecialOwner(account, id) if is_valid and place.scope.startswith(items.scope(EDGE, _PATH)) else None


def _special_hostports(edge: Item) -> tuple[str, ...]:
    """Return the hostports of an edge if they are special, or none."""
    if edge.path == kinds.HTTPS_EDGES.path and not edge.malformed and edge.body.get("terminate_at") != UPSTREAM:
        authorities, termination = edge.modules.get("mutual_tls"), edge.modules.get("tls_termination")
        if _is_disabled(authorities) and _has_default_version(termination):
            return ()
    return tuple(listening.hostports(edge))


def _is_disabled(module: object) -> bool:
    return module is None or (isinstance(module, Mapping) and module.get("enabled") is False)


def _has_default_version(termination: object) -> bool:
    """Return whether a module requires the default TLS version. False for a malformed one."""
    is_default = isinstance(termination, Mapping) and termination.get("min_version") in _DEFAULT_VERSIONS
    return is_default or _is_disabled(termination)


def _decode(owner: SpecialOwner | None, body: Any) -> SpecialEntry | None:
    """Return the entry of a record, or None if it is malformed."""
    hostports = body.get("hostports") if isinstance(body, Mapping) else None
    is_list = isinstance(hostports, Sequence) and not isinstance(hostports, str)
    if owner is None or not is_list or not all(isinstance(it, str) for it in hostports or ()):
        return None
    return SpecialEntry(owner, tuple(hostports or ()))


def _scope(shard: int) -> str:
    return items.scope(EDGE, f"{_PATH}{shard}")
