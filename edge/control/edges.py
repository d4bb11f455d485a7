"""The edges that listen somewhere, and what they lead to; an account that cannot be read delays nobody else.

Of an account only what its edges name is read and kept: backends, those that these share traffic between, authorities.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from chalicelib.model import accounts, kinds, served
from chalicelib.model.backends import Weighted
from chalicelib.model.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.storage.change_log import Place
from edge.process import log
from edge.store.records import Store, Unavailable
from edge.traffic.world import Gone

Part: TypeAlias = ServedBackend | ServedAuthority
Value: TypeAlias = ServedEdge | Part
Listed: TypeAlias = Mapping[tuple[str, str], int]  # revisions, by account and id
Looking: TypeAlias = "asyncio.Future[Listed]"
R = TypeVar("R")

_AT_ONCE = 32


@dataclass(frozen=True)
class Found:
    """The values read of an account, by id, None for what is not there. `is_away`: the store could not be reached."""

    account: str
    asked: frozenset[str]
    values: Mapping[str, Value | None] = field(default_factory=dict)
    is_away: bool = False


class Edges:
    """The edges that are known, those being read, and those that the last look at all found to differ."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: defaultdict[str, dict[str, Value | None]] = defaultdict(dict)  # by account; None: named, not there
        self._wanted: defaultdict[str, set[str]] = defaultdict(set)
        self._reading: dict[str, asyncio.Future[Found]] = {}
        self._looking: Looking | None = None
        self._has_looked = False
        self._suspects: set[str] = set()  # ids that a look has read again
        self._untold: set[str] = set()  # of those, the ones that were others than known
        self._threads = ThreadPoolExecutor(_AT_ONCE, "edges")

    def hear(self, places: Iterable[Place]) -> frozenset[str]:
        """Read the changed places; return the ids that a look found changed and the log has still not told."""
        for place in places:
            account, ids = self._concerned(place)
            self._suspects -= ids
            self._untold -= ids
            is_read_now = account in self._reading  # and may have been read just before
            known = self._known.get(account, {})
            if wanted := {id for id in ids if _is_edge(id) or is_read_now or id in known}:
                self._wanted[account] |= wanted
        missed, self._untold = frozenset(self._untold), set()
        return missed

    def _concerned(self, place: Place) -> tuple[str, set[str]]:
        """Return the account of a changed place, and the ids of what is read otherwise by that."""
        account, _, path = place.scope.partition("#")
        if place.scope == accounts.SCOPE:
            return place.id, set(filter(_is_edge, self._known.get(place.id, ())))
        if path == kinds.RESERVED_ADDRS.path:
            return account, set(filter(_is_of_tcp, self._known.get(account, ())))
        return account, {place.id}

    def look(self) -> None:
        """Begin to look at all edges, unless that is being done."""
        if not self._looking:
            self._looking = asyncio.get_running_loop().run_in_executor(self._threads, self._store.list_listening_edges)

    async def taken(self, *, within: float | None) -> list[Value | Gone]:
        """Return the differences, after so many seconds at most; those that are read later are returned the next time.

        Where None is given, it waits for a look and all that it leads to, and raises Unavailable.
        """
        facts: list[Value | Gone] = []
        if self._looking and (within is None or self._looking.done()):
            facts += self._compare(await self._looked(self._looking, within))
        self._start()
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=within)
        for account in [account for account, reading in self._reading.items() if reading.done()]:
            facts += self._take(self._reading.pop(account).result())
        return facts

    async def _looked(self, looking: Looking, within: float | None) -> Listed | None:
        """Return the list that a look has found; None where the store could not be reached, and it looks again."""
        self._looking = None
        try:
            return await looking
        except Unavailable:
            if within is None:
                raise
        self.look()
        return None

    def _compare(self, listed: Listed | None) -> list[Gone]:
        """Read again all edges that are not of the listed revision, and all that edges lead to.

        Those of TCP are read again in any case: what their reserved addresses say is not in their revision. Return what
        they lead to no more.
        """
        if listed is None:
            return []
        gone, busy = list(self._unnamed()), self._busy()
        known = {(account, id): it for account, values in self._known.items() for id, it in values.items()}
        for account, id in known.keys() | listed.keys():
            value = known.get((account, id))
            revision = value.revision if isinstance(value, ServedEdge) else None
            if not _is_edge(id) or _is_of_tcp(id) or revision != listed.get((account, id)):
                if self._has_looked and account not in busy:
                    self._suspects.add(id)
                self._wanted[account].add(id)
        self._has_looked = True
        return gone

    def _busy(self) -> set[str]:
        return self._reading.keys() | self._wanted.keys()

    def _start(self) -> None:
        for account in self._wanted.keys() - self._reading.keys():
            ids, known = frozenset(self._wanted.pop(account)), frozenset(self._known.get(account, ()))
            for id in filter(_is_edge, ids):  # a switch of the account meanwhile concerns it too
                self._known[account].setdefault(id, None)
            loop = asyncio.get_running_loop()
            self._reading[account] = loop.run_in_executor(self._threads, self._read, account, ids, known)

    def _take(self, found: Found) -> Iterator[Value | Gone]:
        """Yield the differences from what was known of an account."""
        if found.is_away:
            self._wanted[found.account] |= found.asked
            return
        known = self._known[found.account]
        for id, value in found.values.items():
            former = known.get(id)
            before, known[id] = _served(former), (value := _placed(value, former))
            if before != (now := _served(value)):
                self._untold |= {id} & self._suspects
                yield now or Gone(id)
        self._suspects -= found.values.keys()

    def _unnamed(self) -> Iterator[Gone]:
        """Forget what no edge leads to any more."""
        for account in self._known.keys() - self._busy():
            known = self._known.pop(account)
            kept: dict[str, Value | None] = {id: it for id, it in known.items() if isinstance(it, ServedEdge)}
            named = names_of(kept.values())
            while new := named - kept.keys():
                kept |= {id: known.get(id) for id in new}
                named = names_of(kept[id] for id in new)
            if kept:
                self._known[account] = kept
            yield from (Gone(id) for id in known.keys() - kept.keys() if known[id])

    def _read(self, account: str, asked: frozenset[str], known: frozenset[str]) -> Found:
        """Read edges and parts of an account, and the parts that they name and that are not known."""
        try:
            asked_edges = [id for id in asked if _is_edge(id)]
            values: dict[str, Value | None] = {id: self._edge(account, id) for id in asked_edges}
            if asked_edges:
                is_on = self._is_on(account)  # asked last: the log tells of a switch behind it
                values = {id: _switched(value, is_on) for id, value in values.items()}
            named = {*asked.difference(asked_edges), *(names_of(values.values()) - known)}
            while named:
                read = {it.id: it for it in self._parts(account, named)}
                values |= {id: read.get(id) for id in named}
                named = names_of(read.values()) - known - values.keys()
        except Unavailable:
            return Found(account, asked, is_away=True)
        return Found(account, asked, values)

    def _edge(self, account: str, id: str) -> ServedEdge | None:
        unreadable: ServedEdge | None = ServedEdge(account, id, 0, (), error=served.UNREADABLE)
        return _readable(account, partial(self._store.read_edge, account, id), unreadable)

    def _is_on(self, account: str) -> bool | None:
        unknown: bool | None = None
        return _readable(account, partial(self._store.is_account_active, account), unknown)

    def _parts(self, account: str, ids: Iterable[str]) -> list[Part]:
        unreadable = [served.unreadable_part(account, id) for id in ids]
        return _readable(account, partial(self._store.read_parts, account, ids), unreadable)


def names_of(values: Iterable[Value | None]) -> set[str]:
    """Return the ids of the backends and authorities that edges and weighted backends name."""
    found: set[str] = set()
    for value in values:
        match value:
            case ServedEdge():
                found |= value.named
            case ServedBackend(value=Weighted(backends=shared)):
                found.update(shared)
    return found


def _served(value: Value | None) -> Value | None:
    return None if isinstance(value, ServedEdge) and not value.hostports else value


def _switched(value: Value | None, is_on: bool | None) -> Value | None:
    """Return an edge as it is kept, and not served, while its account is switched off, or whether is not known."""
    if is_on or not isinstance(value, ServedEdge):
        return value
    return replace(value, error=served.UNREADABLE) if is_on is None else replace(value, hostports=(), error="")


def _placed(value: Value | None, former: Value | None) -> Value | None:
    """Return an edge that cannot be understood with its former hostports, if its records name none.

    So neither a tunnel nor another edge is served in its place, without its modules.
    """
    if isinstance(value, ServedEdge) and isinstance(former, ServedEdge) and value.error and not value.hostports:
        return replace(value, hostports=former.hostports)
    return value


def _is_edge(id: str) -> bool:
    return kinds.of(id) in kinds.EDGES


def _is_of_tcp(id: str) -> bool:
    return kinds.of(id) is kinds.TCP_EDGES


def _readable(account: str, read: Callable[[], R], otherwise: R) -> R:
    """Return the value read, or another where reading fails in any other way: so their account alone is harmed."""
    try:
        return read()
    except Unavailable:
        raise
    except Exception as error:
        log.event("edges_unreadable", account=account, reason=type(error).__name__)
        return otherwise
