"""Control's reads of the records: the log of changes, online tunnels, and regularly all records.

They block, and run in a thread while nothing else changes the world.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chalicelib.model.base import kinds
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import Place
from edge.plan.record_index import Removed, Update
from edge.plan.world import World
from edge.process import log
from edge.store.changes import Follower
from edge.store.records import Store

_ONLINE_PERIOD = 20.0  # seconds between reads of online tunnels, which expire without a log entry
_RESYNC_PERIOD = 180.0  # seconds between reads of all records
_EDGE_SCOPES = re.compile(
    r"accounts|[^#]+#/(?:edges|backends|certificate_authorities|reserved_addrs)(?:/.*)?"
)  # what EdgeRecords reads
_CERTIFICATE_SCOPE = re.compile(f"[^#]+#{kinds.TLS_CERTIFICATES.path}")


@dataclass(frozen=True)
class RecordChanges:
    """Updates, and the accounts whose certificates must be read again.

    `places` are the changed records of edges. `is_all` is set after a resync of all records.
    """

    updates: tuple[Update, ...]
    accounts: frozenset[str]
    places: frozenset[Place]
    is_all: bool = False


@dataclass(frozen=True)
class OnlineRecords:
    """The online gateways and tunnels, and the ids of those with an expired lease."""

    gateways: tuple[Gateway, ...]
    tunnels: tuple[ServedTunnel, ...]
    lapsed: frozenset[str] = frozenset()

    def differences(self, known: Iterable[Gateway | ServedTunnel]) -> list[Update]:
        """Return the updates that turn the known records into these."""
        before, after = {it.id: it for it in known}, _by_id(self.gateways, self.tunnels)
        new = [it for id, it in after.items() if before.get(id) != it]
        return [*new, *(Removed(id) for id in before.keys() - after.keys())]

    def is_expiry(self, update: Update, world: World) -> bool:
        """Return whether a difference only follows from an expired lease of a tunnel or gateway."""
        tunnel = world.tunnels.get(update.id)
        is_orphan = isinstance(update, Removed) and tunnel and tunnel.gateway not in {it.id for it in self.gateways}
        return update.id in self.lapsed or bool(is_orphan)


def _by_id(*found: Sequence[Gateway | ServedTunnel]) -> dict[str, Gateway | ServedTunnel]:
    return {it.id: it for each in found for it in each}


class Reader:
    """Reads the records for control. `missed` counts the changes that the log did not report.

    `clock` is the time in the log, `steady` a monotonic clock.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self.missed = 0
        self._steady = steady
        self._store, self._clock, self._follower = store, clock, Follower(store, clock())
        self._unread: set[Place] = set()  # records to read
        self._of_edges: set[Place] = set()  # changed edge records to return
        self._online_at = self._resync_at = 0.0  # steady times of the next reads
        self._logged_at: dict[str, float] = {}  # the time of an account's last certificate change in the log
        self._suspects: frozenset[str] = frozenset()

    def read_changes(self, world: World) -> RecordChanges:
        """Return the updates that differ from the world. Raises Unavailable."""
        now = self._steady()
        is_full, is_first = now >= self._resync_at, not self._resync_at
        if is_first:
            self._follower.read(self._clock())  # the first resync includes earlier changes
        online = self._read_all() if is_full else self._read_online(world.gateways) if now >= self._online_at else None
        logged = self._read_log()  # after the resync, to include changes during it
        logged_ids = {update.id for update in logged.updates}
        known = _known_records(world) if is_full else _reachable_records(world)
        found = [update for update in online.differences(known) if update.id not in logged_ids] if online else []
        if is_full:
            self._resync_at = now + _RESYNC_PERIOD
            self._logged_at = {account: at for account, at in self._logged_at.items() if at > now - _RESYNC_PERIOD}
            if not is_first:
                self.count_missed(update.id for update in found if online and not online.is_expiry(update, world))
                log.event("looked", gateways=len(world.gateways), tunnels=len(world.tunnels), missed=self.missed)
        if online:
            self._online_at = now + _ONLINE_PERIOD
        self._logged_at |= dict.fromkeys(logged.accounts, now)
        self.count_missed(self._suspects - logged.accounts)
        self._suspects = frozenset()
        accounts = logged.accounts.union(world.accounts() if is_full else ())
        return RecordChanges((*found, *logged.updates), accounts, logged.places, is_full)

    def suspect_missed(self, account: str) -> None:
        """Note that an account's certificates changed, probably without a log entry."""
        self._suspects |= {account} - self._logged_at.keys()

    def count_missed(self, missed: Iterable[str]) -> None:
        """Count and log changes that the log did not report."""
        for id in missed:
            self.missed += 1
            log.event("change_missed", id=id)

    def _read_log(self) -> RecordChanges:
        """Return the new changes in the log. Records that cannot be read are read at the next call."""
        changes = self._follower.read(self._clock())
        changed = {place for change in changes for place in change.places}
        self._of_edges |= {place for place in changed if _EDGE_SCOPES.fullmatch(place.scope)}
        self._unread |= changed - self._of_edges
        found = {place: self._store.read_current(place) for place in self._unread}
        self._unread = set()
        # Removed certificates count too: a running read of the account may still return them.
        accounts = {place.scope.partition("#")[0] for place in found if _CERTIFICATE_SCOPE.fullmatch(place.scope)}
        updates = [_to_update(place, it) for place, it in found.items() if not isinstance(it, ServedCertificate)]
        back = [
            update.id for update in updates if isinstance(update, Gateway)
        ]  # gateways that came back, with their tunnels
        updates += _live_tunnels(self._store.list_tunnels(id) for id in back)
        of_edges, self._of_edges = frozenset(self._of_edges), set()
        return RecordChanges(tuple(updates), frozenset(accounts), of_edges)

    def _read_all(self) -> OnlineRecords:
        """Return all online gateways and tunnels, and end expired leases with an event each."""
        every = self._store.list_gateways()
        carried = {gateway.id: self._store.list_tunnels(gateway.id) for gateway, _ in every}
        lapsed = [it for tunnels in carried.values() for it in tunnels if not it.is_live]
        for account in {tunnel.account for tunnel in lapsed}:
            self._store.end_lapsed_tunnels(account)
        down = [gateway.id for gateway, is_up in every if not is_up]
        for id in down:
            if not any(it.is_live for it in carried[id]):
                self._store.withdraw_gateway(id)
        up = tuple(gateway for gateway, is_up in every if is_up)
        return OnlineRecords(up, _live_tunnels(carried.values()), frozenset([*down, *(it.id for it in lapsed)]))

    def _read_online(self, gateways: Iterable[str]) -> OnlineRecords:
        """Return which of these gateways are online, and their tunnels."""
        wanted = set(gateways)
        up = tuple(gateway for gateway, is_up in self._store.list_gateways() if is_up and gateway.id in wanted)
        return OnlineRecords(up, _live_tunnels(self._store.list_tunnels(gateway.id) for gateway in up))


def _live_tunnels(lists: Iterable[Sequence[ServedTunnel]]) -> tuple[ServedTunnel, ...]:
    return tuple(it for tunnels in lists for it in tunnels if it.is_live and (it.name or it.labels))


def _known_records(world: World) -> list[Gateway | ServedTunnel]:
    """Return the known records that a resync verifies, including tunnels without a known gateway."""
    return [*world.gateways.values(), *world.tunnels.values()]


def _reachable_records(world: World) -> list[Gateway | ServedTunnel]:
    """Return the known gateways and their tunnels."""
    carried = [it for gateway in world.gateways for it in world.tunnels_of_gateway(gateway)]
    return [*world.gateways.values(), *carried]


def _to_update(place: Place, found: Gateway | ServedTunnel | ServedReservation | None) -> Update:
    is_served = isinstance(found, Gateway | ServedReservation) or (
        found and found.gateway and (found.name or found.labels)
    )
    return found if found and is_served else Removed(place.id)
