"""The listening edges and what they use. An account with unreadable records delays no others.

Of an account only the records that its edges name are read: backends, their children, and authorities.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import served
from chalicelib.model.edges.backends import Weighted
from chalicelib.model.edges.served import ServedAuthority, ServedBackend, ServedEdge
from chalicelib.storage.records.change_log import Place
from edge.plan.record_index import Removed
from edge.process import log
from edge.store.records import Store, Unavailable

EdgePart: TypeAlias = ServedBackend | ServedAuthority
EdgeRecord: TypeAlias = ServedEdge | EdgePart
Revisions: TypeAlias = Mapping[tuple[str, str], int]  # revisions by account and id
Listing: TypeAlias = "asyncio.Future[Revisions]"
R = TypeVar("R")

_MAX_READS = 32


@dataclass(frozen=True)
class AccountRecords:
    """Records read of an account, by id, or None if they do not exist.

    With `is_unavailable`, the store could not be reached.
    """

    account: str
    requested: frozenset[str]
    values: Mapping[str, EdgeRecord | None] = field(default_factory=dict)
    is_unavailable: bool = False


class EdgeRecords:
    """The known edge records, the running reads, and the differences that a resync found."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: defaultdict[str, dict[str, EdgeRecord | None]] = defaultdict(
            dict
        )  # by account; None: named, but does not exist
        self._wanted: defaultdict[str, set[str]] = defaultdict(set)
        self._reading: dict[str, asyncio.Future[AccountRecords]] = {}
        self._resyncing: Listing | None = None
        self._has_synced = False
        self._suspects: set[str] = set()  # ids that a resync reads again
        self._missed: set[str] = set()  # suspects that had changed
        self._threads = ThreadPoolExecutor(_MAX_READS, "edges")

    def request(self, changed: Iterable[Place]) -> frozenset[str]:
        """Read changed records. Return the ids that a resync found changed, but the log did not report."""
        for place in changed:
            account, ids = self._affected(place)
            self._suspects -= ids
            self._missed -= ids
            is_read_now = account in self._reading  # and may have been read before the change
            known = self._known.get(account, {})
            if wanted := {id for id in ids if _is_edge(id) or is_read_now or id in known}:
                self._wanted[account] |= wanted
        missed, self._missed = frozenset(self._missed), set()
        return missed

    def _affected(self, place: Place) -> tuple[str, set[str]]:
        """Return the account of a changed record, and the ids that must be read again."""
        account, _, path = place.scope.partition("#")
        if place.scope == accounts.SCOPE:
            return place.id, set(filter(_is_edge, self._known.get(place.id, ())))
        if path == kinds.RESERVED_ADDRS.path:
            return account, set(filter(_is_of_tcp, self._known.get(account, ())))
        return account, {place.id}

    def start_resync(self) -> None:
        """Start to list all edges, unless a listing is running."""
        if not self._resyncing:
            self._resyncing = asyncio.get_running_loop().run_in_executor(
                self._threads, self._store.list_listening_edges
            )

    async def collect(self, *, timeout: float | None) -> list[EdgeRecord | Removed]:
        """Return the changes read within `timeout` seconds. Later ones are returned by the next call.

        With None, it waits for the whole resync. Raises Unavailable.
        """
        updates: list[EdgeRecord | Removed] = []
        if self._resyncing and (timeout is None or self._resyncing.done()):
            updates += self._compare(await self._finish_resync(self._resyncing, timeout))
        self._start()
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=timeout)
        for account in [account for account, reading in self._reading.items() if reading.done()]:
            updates += self._apply(self._reading.pop(account).result())
        return updates

    async def _finish_resync(self, listing: Listing, timeout: float | None) -> Revisions | None:
        """Return the result of a listing, or None after starting it again if the store is unavailable."""
        self._resyncing = None
        try:
            return await listing
        except Unavailable:
            if timeout is None:
                raise
        self.start_resync()
        return None

    def _compare(self, revisions: Revisions | None) -> list[Removed]:
        """Request the edges with another revision, and all records that edges use. Return removed records.

        TCP edges are always read, since their revision does not include their reserved addresses.
        """
        if revisions is None:
            return []
        gone, busy = list(self._drop_unnamed()), self._busy_accounts()
        known = {(account, id): it for account, values in self._known.items() for id, it in values.items()}
        for account, id in known.keys() | revisions.keys():
            value = known.get((account, id))
            revision = value.revision if isinstance(value, ServedEdge) else None
            if not _is_edge(id) or _is_of_tcp(id) or revision != revisions.get((account, id)):
                if self._has_synced and account not in busy:
                    self._suspects.add(id)
                self._wanted[account].add(id)
        self._has_synced = True
        return gone

    def _busy_accounts(self) -> set[str]:
        return self._reading.keys() | self._wanted.keys()

    def _start(self) -> None:
        for account in self._wanted.keys() - self._reading.keys():
            ids, known = frozenset(self._wanted.pop(account)), frozenset(self._known.get(account, ()))
            for id in filter(_is_edge, ids):  # a change of the account's switch must find these edges
                self._known[account].setdefault(id, None)
            loop = asyncio.get_running_loop()
            self._reading[account] = loop.run_in_executor(self._threads, self._read, account, ids, known)

    def _apply(self, records: AccountRecords) -> Iterator[EdgeRecord | Removed]:
        """Yield the differences from the known records of an account."""
        if records.is_unavailable:
            self._wanted[records.account] |= records.requested
            return
        known = self._known[records.account]
        for id, value in records.values.items():
            former = known.get(id)
            before, known[id] = _served_record(former), (value := _retain_hostports(value, former))
            if before != (now := _served_record(value)):
                self._missed |= {id} & self._suspects
                yield now or Removed(id)
        self._suspects -= records.values.keys()

    def _drop_unnamed(self) -> Iterator[Removed]:
        """Remove the records that no edge uses any more."""
        for account in self._known.keys() - self._busy_accounts():
            known = self._known.pop(account)
            named_records: dict[str, EdgeRecord | None] = {
                id: it for id, it in known.items() if isinstance(it, ServedEdge)
            }
            named = names_of(named_records.values())
            while new := named - named_records.keys():
                named_records |= {id: known.get(id) for id in new}
                named = names_of(named_records[id] for id in new)
            if named_records:
                self._known[account] = named_records
            yield from (Removed(id) for id in known.keys() - named_records.keys() if known[id])

    def _read(self, account: str, requested: frozenset[str], known: frozenset[str]) -> AccountRecords:
        """Read records of an account, and the unknown ones that they name."""
        try:
            edge_ids = [id for id in requested if _is_edge(id)]
            values: dict[str, EdgeRecord | None] = {id: self._edge(account, id) for id in edge_ids}
            if edge_ids:
                is_on = self._is_on(account)  # last, so that the log reports a later change of the switch
                values = {id: _apply_switch(value, is_on) for id, value in values.items()}
            named = {*requested.difference(edge_ids), *(names_of(values.values()) - known)}
            while named:
                read = {it.id: it for it in self._parts(account, named)}
                values |= {id: read.get(id) for id in named}
                named = names_of(read.values()) - known - values.keys()
        except Unavailable:
            return AccountRecords(account, requested, is_unavailable=True)
        return AccountRecords(account, requested, values)

    def _edge(self, account: str, id: str) -> ServedEdge | None:
        unreadable: ServedEdge | None = ServedEdge(account, id, 0, (), error=served.UNREADABLE)
        return _read_or(account, partial(self._store.read_edge, account, id), unreadable)

    def _is_on(self, account: str) -> bool | None:
        unknown: bool | None = None
        return _read_or(account, partial(self._store.is_account_active, account), unknown)

    def _parts(self, account: str, ids: Iterable[str]) -> list[EdgePart]:
        unreadable = [served.empty_part(account, id) for id in ids]
        return _read_or(account, partial(self._store.read_parts, account, ids), unreadable)


def names_of(values: Iterable[EdgeRecord | None]) -> set[str]:
    """Return the ids of the backends and authorities that records name."""
    records: set[str] = set()
    for value in values:
        match value:
            case ServedEdge():
                records |= value.named
            case ServedBackend(value=Weighted(backends=shared)):
                records.update(shared)
    return records


def _served_record(value: EdgeRecord | None) -> EdgeRecord | None:
    return None if isinstance(value, ServedEdge) and not value.hostports else value


def _apply_switch(value: EdgeRecord | None, is_on: bool | None) -> EdgeRecord | None:
    """Return an edge without hostports if its account is switched off, or closed if that is unknown."""
    if is_on or not isinstance(value, ServedEdge):
        return value
    return replace(value, error=served.UNREADABLE) if is_on is None else replace(value, hostports=(), error="")


def _retain_hostports(value: EdgeRecord | None, former: EdgeRecord | None) -> EdgeRecord | None:
    """Return a malformed edge with its former hostports, if its records name none.

    Otherwise a tunnel or another edge would be served in its place, without its modules.
    """
    if isinstance(value, ServedEdge) and isinstance(former, ServedEdge) and value.error and not value.hostports:
        return replace(value, hostports=former.hostports)
    return value


def _is_edge(id: str) -> bool:
    return kinds.of(id) in kinds.EDGES


def _is_of_tcp(id: str) -> bool:
    return kinds.of(id) is kinds.TCP_EDGES


def _read_or(account: str, read: Callable[[], R], otherwise: R) -> R:
    """Return the value read, or `otherwise` if its records are malformed, which affects one account only."""
    try:
        return read()
    except Unavailable:
        raise
    except Exception as error:
        log.event("edges_unreadable", account=account, reason=type(error).__name__)
        return otherwise
