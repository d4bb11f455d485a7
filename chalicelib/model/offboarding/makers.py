"""The tree of a key or federated credential: all resources that it created, directly or through other keys.

Only audit events record the maker of a resource: the key or credential that created it. An index finds these events by
the maker's id. The index can be late, so the events of the last minute are read from the list of all audit events of
the account.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chalicelib import clock
from chalicelib.model.accounts import scopes
from chalicelib.model.audit import partitions, reading
from chalicelib.model.audit.details import Details
from chalicelib.model.audit.trail import Event
from chalicelib.model.base import kinds, records
from chalicelib.storage.records.items import Item

KINDS = (
    *(kinds.API_KEYS, kinds.FEDERATED_CREDENTIALS, kinds.SSH_CREDENTIALS),
    *(kinds.SSH_HOST_CERTIFICATES, kinds.SSH_USER_CERTIFICATES),
)
_ACTIONS = frozenset(f"{kind.noun}.create" for kind in KINDS)
_COLLECTIONS = frozenset(kind.path.removeprefix("/") for kind in KINDS)
_FRESH = 3.0  # seconds after which `refresh` reads the latest events again
_LAG = 60  # the most seconds until the index by actor contains a new event


@dataclass(frozen=True)
class TreeResource:
    """A resource that a key or credential (its `maker`) created.

    It is read from the audit event of its creation. `owner` is the user or bot that owns the resource, or "".
    """

    id: str
    owner: str
    maker: str
    details: Details

    @property
    def may_make(self) -> bool:
        """Return whether the resource can create other resources, such as API keys.

        A federated credential always can. An API key can if it has no scopes, or if one of its scopes permits the
        creation of resources of a kind in KINDS.
        """
        if kinds.FEDERATED_CREDENTIALS.has(self.id):
            return True
        key_scopes = self.details.get("scopes")
        is_permitted = not isinstance(key_scopes, list) or any(map(_permits_making, key_scopes))
        return kinds.API_KEYS.has(self.id) and is_permitted

    def has_ended(self) -> bool:
        """Return whether the resource is a certificate that is no longer valid."""
        until = self.details.get("valid_until")
        try:
            return bool(until) and clock.parse(str(until)).timestamp() <= clock.seconds()
        except ValueError:
            return False


class MakerEvents:
    """Audit events of one account about resources that API keys and federated credentials created."""

    def __init__(self, account: str) -> None:
        """Read the account's events of the last minute. Raises aws.Unavailable."""
        self._account, self._is_busy = account, partitions.is_busy(account)
        self._latest: dict[str, dict[str, TreeResource]] = {}
        self._read_at = float("-inf")
        self.refresh()

    def refresh(self) -> None:
        """Read the events of the last minute, at most every _FRESH seconds. Raises aws.Unavailable."""
        if time.monotonic() - self._read_at < _FRESH:
            return
        self._read_at = time.monotonic()
        for resource in _read_resources(reading.read_latest(self._account, _LAG, _ACTIONS, is_busy=self._is_busy)):
            self._latest.setdefault(resource.maker, {})[resource.id] = resource

    def find_made_lately_by(self, makers: Iterable[str]) -> list[TreeResource]:
        """Return the resources that `makers` created in the minute before any call of `refresh`. Does no I/O."""
        return [resource for maker in makers for resource in self._latest.get(maker, {}).values()]

    def find_made_by(self, maker: str, *, since: int = 0) -> list[TreeResource]:
        """Return the resources that an API key or federated credential has created since a Unix second.

        Raises aws.Unavailable.
        """
        events = reading.read_actions_of(self._account, maker, _ACTIONS, since=since, is_busy=self._is_busy)
        resources = {resource.id: resource for resource in _read_resources(events)}
        return list((resources | self._latest.get(maker, {})).values())


def _read_resources(events: Iterator[Item]) -> Iterator[TreeResource]:
    for _, event in records.decode_each(Event, events):
        owner = event.details.get("owner_id", "")
        if "certificate" in event.action:  # the requester of a certificate owns it, and the event names no owner
            owner = event.actor.get("owner_id", "")
        yield TreeResource(event.resource_id, str(owner), event.actor.get("key_id", ""), event.details)


def _permits_making(scope: str) -> bool:
    collection, _, right = scope.partition("@")[0].partition(":")
    return scope == scopes.ALL or (collection in _COLLECTIONS and right in (scopes.CREATE, scopes.WRITE))
