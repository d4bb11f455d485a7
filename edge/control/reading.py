"""Control's reading of the records: of the log of changes, of what gateways carry, and now and then of everything.

It blocks, and runs in a thread while nothing else changes the world.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from chalicelib.model import kinds
from chalicelib.model.gateways import Gateway
from chalicelib.model.reservations import Held
from chalicelib.model.tls_certificates import ServedCertificate
from chalicelib.model.tunnels import Carried
from chalicelib.storage.change_log import Place
from edge.process import log
from edge.store.changes import Follower
from edge.store.records import Store
from edge.traffic.world import Fact, Gone, World

_CARRYING = 20.0  # seconds until it is read again what the gateways carry, whose leases end without a word
_LOOK = 180.0  # seconds until all is read again
_OF_EDGES = re.compile(
    r"accounts|[^#]+#/(?:edges|backends|certificate_authorities|reserved_addrs)(?:/.*)?"
)  # what control/edges.py reads
_CERTIFICATES = re.compile(f"[^#]+#{kinds.TLS_CERTIFICATES.path}")


@dataclass(frozen=True)
class News:
    """Facts, and the accounts whose certificates are to be read again; `is_all` where they are all there are.

    `places` are those of edges, and of what these lead to, that were changed.
    """

    facts: tuple[Fact, ...]
    accounts: frozenset[str]
    places: frozenset[Place]
    is_all: bool = False


@dataclass(frozen=True)
class Look:
    """The gateways and tunnels that are live, and the ids of those whose lease has ended."""

    gateways: tuple[Gateway, ...]
    tunnels: tuple[Carried, ...]
    lapsed: frozenset[str] = frozenset()

    def differing(self, known: Iterable[Gateway | Carried]) -> list[Fact]:
        """Return the facts that are not known yet, and those of what is gone."""
        before, after = {it.id: it for it in known}, _by_id(self.gateways, self.tunnels)
        new = [it for id, it in after.items() if before.get(id) != it]
        return [*new, *(Gone(id) for id in before.keys() - after.keys())]

    def explains(self, fact: Fact, world: World) -> bool:
        """Tell whether a difference is no change: a lease has ended, that of a tunnel or of its gateway."""
        tunnel = world.tunnels.get(fact.id)
        is_orphan = isinstance(fact, Gone) and tunnel and tunnel.gateway not in {it.id for it in self.gateways}
        return fact.id in self.lapsed or bool(is_orphan)


def _by_id(*found: Sequence[Gateway | Carried]) -> dict[str, Gateway | Carried]:
    return {it.id: it for each in found for it in each}


class Reader:
    """The records, read for one control. `missed` counts the changes that the log did not tell.

    `clock` is the one that the log is read by, `steady` the one that tells how long ago it was that all was read.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self.missed = 0
        self._steady = steady
        self._store, self._clock, self._follower = store, clock, Follower(store, clock())
        self._unread: set[Place] = set()  # that could not be read yet
        self._of_edges: set[Place] = set()  # that were not returned yet
        self._carrying_at = self._look_at = 0.0  # on the steady clock
        self._logged_at: dict[str, float] = {}  # accounts of whose certificates the log has told
        self._suspects: frozenset[str] = frozenset()

    def news(self, world: World) -> News:
        """Return the facts that differ from the world. Raises Unavailable."""
        now = self._steady()
        is_full, is_first = now >= self._look_at, not self._look_at
        if is_first:
            self._follower.read(self._clock())  # the look finds what was told before it
        look = self._look() if is_full else self._carrying(world.gateways) if now >= self._carrying_at else None
        heard = self._hear()  # after the look: it tells what that could not see
        logged = {fact.id for fact in heard.facts}
        known = _known(world) if is_full else _carried(world)
        found = [fact for fact in look.differing(known) if fact.id not in logged] if look else []
        if is_full:
            self._look_at = now + _LOOK
            self._logged_at = {account: at for account, at in self._logged_at.items() if at > now - _LOOK}
            if not is_first:
                self.count(fact.id for fact in found if look and not look.explains(fact, world))
                log.event("looked", gateways=len(world.gateways), tunnels=len(world.tunnels), missed=self.missed)
        if look:
            self._carrying_at = now + _CARRYING
        self._logged_at |= dict.fromkeys(heard.accounts, now)
        self.count(self._suspects - heard.accounts)
        self._suspects = frozenset()
        accounts = heard.accounts.union(world.accounts() if is_full else ())
        return News((*found, *heard.facts), accounts, heard.places, is_full)

    def suspect(self, account: str) -> None:
        """Hear that an account has other certificates than known, of which the log has not told until now."""
        self._suspects |= {account} - self._logged_at.keys()

    def count(self, missed: Iterable[str]) -> None:
        """Count changes that the log did not tell, by the ids of what was changed."""
        for id in missed:
            self.missed += 1
            log.event("change_missed", id=id)

    def _hear(self) -> News:
        """Return the facts that are new in the log; a place that cannot be read is read the next time."""
        changes = self._follower.read(self._clock())
        changed = {place for change in changes for place in change.places}
        self._of_edges |= {place for place in changed if _OF_EDGES.fullmatch(place.scope)}
        self._unread |= changed - self._of_edges
        found = {place: self._store.read_current(place) for place in self._unread}
        self._unread = set()
        # Also of one that is gone: its account's may be being read, as they were before.
        accounts = {place.scope.partition("#")[0] for place in found if _CERTIFICATES.fullmatch(place.scope)}
        facts = [_fact(place, it) for place, it in found.items() if not isinstance(it, ServedCertificate)]
        back = [fact.id for fact in facts if isinstance(fact, Gateway)]  # with what it carried before
        facts += _served(self._store.list_tunnels(id) for id in back)
        of_edges, self._of_edges = frozenset(self._of_edges), set()
        return News(tuple(facts), frozenset(accounts), of_edges)

    def _look(self) -> Look:
        """Return all there is; end what has lapsed, each with its event."""
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
        return Look(up, _served(carried.values()), frozenset([*down, *(it.id for it in lapsed)]))

    def _carrying(self, gateways: Iterable[str]) -> Look:
        """Return which of some gateways are up, and what they carry."""
        wanted = set(gateways)
        up = tuple(gateway for gateway, is_up in self._store.list_gateways() if is_up and gateway.id in wanted)
        return Look(up, _served(self._store.list_tunnels(gateway.id) for gateway in up))


def _served(lists: Iterable[Sequence[Carried]]) -> tuple[Carried, ...]:
    return tuple(it for tunnels in lists for it in tunnels if it.is_live and (it.name or it.labels))


def _known(world: World) -> list[Gateway | Carried]:
    """Return the facts with which a look at all is compared: also tunnels whose gateway is not known."""
    return [*world.gateways.values(), *world.tunnels.values()]


def _carried(world: World) -> list[Gateway | Carried]:
    """Return the gateways that are known, and what they carry."""
    carried = [it for gateway in world.gateways for it in world.carried_by(gateway)]
    return [*world.gateways.values(), *carried]


def _fact(place: Place, found: Gateway | Carried | Held | None) -> Fact:
    is_served = isinstance(found, Gateway | Held) or (found and found.gateway and (found.name or found.labels))
    return found if found and is_served else Gone(place.id)
