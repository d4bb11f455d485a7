"""An Envoy, a reader and a host for tests of special names."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chalicelib.model.base import kinds
from chalicelib.model.edges.served import ServedAuthority, ServedEdge
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import Place
from edge.control.special import SpecialNames
from edge.control.special_account import Shared
from edge.envoy.resources import Changes, Key, Resource
from edge.process.settings import Settings
from edge.serving.special_serving import SpecialServing
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Unavailable, Undecodable
from tests.edge.memory import Memory
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY

T = TypeVar("T")
A, B = f"acct_{'A' * 27}", f"acct_{'B' * 27}"
FIRST, SECOND, THIRD = (f"edghts_{it * 27}" for it in "123")
SETTINGS = Settings(tcp_ports=range(20000, 20100))
SERVICE = Service("tunnels.localhost", SETTINGS.tcp_ports, frozenset({"*.tunnels.localhost"}))
_LATER = 9e9  # a Unix time after all changes
HOST, OTHER, PORT = "a.tunnels.localhost", "b.tunnels.localhost", "tunnels.localhost:20001"


class Envoy:
    """What Envoy has got. `held` are the clusters of gateways by owner, `removed` all that it had."""

    def __init__(self) -> None:
        self.resources: dict[Key, Resource] = {}
        self.removed: set[Key] = set()
        self.held: dict[str, list[str]] = {}

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        self.held[owner] = [it.key.name for it in clusters]

    async def wait_for_scopes(self, requirements: Mapping[str, str]) -> None:
        pass

    async def publish(self, changes: Changes) -> None:
        gone = {key for key, it in changes.items() if it is None}
        assert gone <= self.resources.keys()
        self.removed |= gone
        self.resources |= {key: it for key, it in changes.items() if it}
        self.resources = {key: it for key, it in self.resources.items() if key not in gone}

    @property
    def closed(self) -> set[str]:
        """Return the hosts whose connections end at once, since the cluster of their chain is missing."""
        hosts = {it for it in self.names if not it.startswith("port/")}
        return {it for it in hosts if Key("cluster", f"name/{it}") not in self.resources}

    @property
    def names(self) -> set[str]:
        """Return the names in the matcher of the public listener, and the open ports."""
        parts = {key.part for key in self.resources if key.kind == "listener" and key.part}
        return parts | {key.name for key in self.resources if key.name.startswith("port/")}


@dataclass
class Reads:
    """A reader of records in memory, which counts what it reads. `away` are accounts whose reads fail."""

    store: Memory
    counts: Counter[str] = field(default_factory=Counter)
    away: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    malformed: set[str] = field(default_factory=set)  # ids of edges
    is_up: bool = True
    can_return: threading.Event = field(default_factory=threading.Event)  # with what was read before

    def __post_init__(self) -> None:
        self.can_return.set()

    def read_items(self, account: str, ids: Iterable[str], known: AccountRecords | None) -> AccountRecords:
        return self._read("items", account, {*ids, *(self._ids(known) if known else ())})

    def read_changed(self, records: AccountRecords, places: Iterable[Place]) -> AccountRecords:
        return self._read("changed", records.account, self._ids(records))

    def resync(self, records: AccountRecords) -> AccountRecords:
        return self._read("resync", records.account, self._ids(records))

    @staticmethod
    def _ids(records: AccountRecords) -> set[str]:
        return {place.id for place in records.versions}

    def _read(self, what: str, account: str, ids: set[str]) -> AccountRecords:
        found = self._find(what, account, ids)
        self.can_return.wait(5)
        return found

    def _find(self, what: str, account: str, ids: set[str]) -> AccountRecords:
        if account in self.away:
            raise Unavailable(account)
        if account in self.broken:
            raise ValueError(account)
        if ids & self.malformed:
            raise Undecodable("record_malformed")
        self.counts[f"{account} {what}"] += 1
        edges = {id: it for id, it in self.store.edges.items() if id in ids and it.account == account}
        every = (it for it, _ in self.store.online.values() if it.account == account and it.id in ids)
        online = [it for it in every if not it.has_lapsed(time.time())]
        return AccountRecords(
            account,
            frozenset(),
            is_active=account not in self.store.off,
            edges=edges,
            tunnels={it.id: it for it in online},
            gateways={GATEWAY.id: GATEWAY} if self.is_up else {},
            backends={worlds.GROUP: worlds.group(account=account)},
            authorities={"ca_1": ServedAuthority(account, "ca_1", "PEM")},
            versions={
                Place(items.scope(account, kinds.of(id).path), id): f"{edges[id].revision}" if id in edges else ""
                for id in ids
            },
        )


class SlowEntries(Memory):
    """A store that returns entries after `can_return`, as they were before."""

    def __init__(self) -> None:
        super().__init__()
        self.can_return, self.was_read = threading.Event(), threading.Event()
        self.can_return.set()

    def read_special_names(self, owners: Iterable[SpecialOwner]) -> Mapping[SpecialOwner, SpecialEntry]:
        found = super().read_special_names(owners)
        self.was_read.set()
        self.can_return.wait(5)
        return found


class World:
    """The special names of one edge host, in memory."""

    def __init__(self) -> None:
        self.store, self.envoy = SlowEntries(), Envoy()
        self.reported: list[str] = []
        self.reads = Reads(self.store)
        self.store.announce_gateway(GATEWAY, lease=60)
        self._runner = asyncio.Runner()
        self._follower = Follower(self.store, 0)
        self.start()

    def start(self, *, patience: float = 0, **settings: float) -> None:
        serving = SpecialServing(SETTINGS, "PEM")
        self.envoy.__init__()  # type: ignore[misc]
        shared = Shared(self.reads, serving, self.envoy, self.store.list_hosts, asyncio.to_thread, lambda: SERVICE)
        self.special = SpecialNames(self.store, shared, patience=patience, **settings)

    def load(self) -> None:
        self._follower.read(_LATER)
        self.run(self.load_special)

    async def load_special(self) -> None:
        await self.special.start(self.reported.append)

    def follow(self) -> None:
        """Apply what the log has, and wait until all of it is done."""
        self.apply(*self.read_log())

    def read_log(self) -> list[Place]:
        """Return the changed places that the log has now."""
        return [place for it in self._follower.read(_LATER) for place in it.places]

    def apply(self, *places: Place) -> None:
        async def act() -> None:
            self.special.apply(places)
            await self.settle()

        self.run(act)

    async def settle(self) -> None:
        """Check, and wait until all work is done."""
        for _ in range(2):
            await self.special.check()
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(500):
            if not self.special.is_busy:
                return
            await asyncio.sleep(0.005)

    def run(self, act: Callable[[], Awaitable[T]]) -> T:
        async def wait() -> T:
            return await act()

        return self._runner.run(wait())

    def keep(self, *edges: ServedEdge) -> None:
        for it in edges:
            self.store.keep(it)

    def open(self, name: str, proto: Any, account: str = A) -> ServedTunnel:
        opening = Opening(Grant(account, "sshcr_1", ()), GATEWAY.id, "ts_1", "192.0.2.9", name, "", proto=proto)
        return self.store.open(opening, most=10)

    def close(self) -> None:
        self._runner.close()
