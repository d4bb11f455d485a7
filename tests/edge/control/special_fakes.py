"""An Envoy, a reader and a host for tests of special names."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Any, TypeVar

from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.name_resolver import NameResolver
from edge.control.special import SpecialNames
from edge.control.special_account import Shared
from edge.envoy.resources import Changes, Key, Resource
from edge.process.settings import Settings
from edge.serving.special_serving import SpecialServing
from edge.store import control_records, threads
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Unavailable, Undecodable
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY
from tests.gateway_leases import set_lease

T = TypeVar("T")
A, B = f"acct_{'A' * 27}", f"acct_{'B' * 27}"
FIRST, SECOND, THIRD = (f"edghts_{digit * 27}" for digit in "123")
SETTINGS = Settings(tcp_ports=range(20000, 20100))
SERVICE = Service("tunnels.localhost", SETTINGS.tcp_ports, frozenset({"*.tunnels.localhost"}))
_LATER = 9e9  # a Unix time after all changes
HOST, OTHER, PORT = "a.tunnels.localhost", "b.tunnels.localhost", "tunnels.localhost:20001"


class Envoy:
    """What Envoy has got. `clusters_by_owner` are the clusters of gateways by owner, `removed` all that it had."""

    def __init__(self) -> None:
        self.resources: dict[Key, Resource] = {}
        self.removed: set[Key] = set()
        self.clusters_by_owner: dict[str, list[str]] = {}
        self.waits: list[tuple[Mapping[str, str], set[str]]] = []  # requirements, and the names before their change

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        self.clusters_by_owner[owner] = [cluster.key.name for cluster in clusters]

    async def wait_for_scopes(self, requirements: Mapping[str, str]) -> None:
        if requirements:
            self.waits.append((dict(requirements), self.names))

    async def publish(self, changes: Changes) -> None:
        removals = {key for key, resource in changes.items() if resource is None}
        assert removals <= self.resources.keys()
        self.removed |= removals
        self.resources |= {key: resource for key, resource in changes.items() if resource}
        self.resources = {key: resource for key, resource in self.resources.items() if key not in removals}

    @property
    def closed(self) -> set[str]:
        """Return the hosts whose connections end at once, since the cluster of their chain is missing."""
        hosts = {name for name in self.names if not name.startswith("port/")}
        return {host for host in hosts if Key("cluster", f"name/{host}") not in self.resources}

    @property
    def names(self) -> set[str]:
        """Return the names in the matcher of the public listener, and the open ports."""
        parts = {key.part for key in self.resources if key.kind == "listener" and key.part}
        return parts | {key.name for key in self.resources if key.name.startswith("port/")}


class Reads:
    """A reader that counts what it reads. Reads of `away` accounts fail, those of `stuck` ones do not end."""

    def __init__(self) -> None:
        self.resolver = NameResolver(worlds.DOMAIN)
        self.counts: Counter[str] = Counter()
        self.away: set[str] = set()
        self.broken: set[str] = set()
        self.malformed: set[str] = set()  # ids of edges
        self.stuck: set[str] = set()
        self.can_go_on = threading.Event()  # ends the reads of `stuck`
        self.can_return = threading.Event()  # with what was read before
        self.can_return.set()

    def read_items(self, account: str, ids: Iterable[str], records: AccountRecords | None) -> AccountRecords:
        wanted_ids = [*ids]
        self._count("items", account, {*wanted_ids, *(records.request.ids if records else ())})
        return self._wait(self.resolver.read_items(account, wanted_ids, records))

    def read_changed(self, records: AccountRecords, item_keys: Iterable[ItemKey]) -> AccountRecords:
        self._count("changed", records.account, records.request.ids)
        return self._wait(self.resolver.read_changed(records, item_keys))

    def resync(self, records: AccountRecords) -> AccountRecords:
        self._count("resync", records.account, records.request.ids)
        return self._wait(self.resolver.resync(records))

    def _count(self, operation: str, account: str, ids: Set[str]) -> None:
        if account in self.stuck:
            self.can_go_on.wait(10)
        if account in self.away:
            raise Unavailable(account)
        if account in self.broken:
            raise ValueError(account)
        if ids & self.malformed:
            raise Undecodable("record_malformed")
        self.counts[f"{account} {operation}"] += 1

    def _wait(self, records: AccountRecords) -> AccountRecords:
        self.can_return.wait(5)
        return records


class World:
    """The special names of one edge host, whose accounts have a group and an authority."""

    def __init__(self, store: EdgeTable) -> None:
        self.store, self.envoy, self.reads = store, Envoy(), Reads()
        self.reported: list[str] = []
        gateways.announce(GATEWAY, lease=60)
        self.reads.resolver.refresh_gateways()
        for account in (A, B):
            served_records.put(worlds.group(account=account), worlds.authority(account=account))
        self._runner = asyncio.Runner()
        self._follower = Follower(change_log.read_since, 0)
        self.start()

    def start(self, *, patience: float = 0, **settings: float) -> None:
        serving = SpecialServing(SETTINGS, "PEM")
        self.envoy.__init__()  # type: ignore[misc]
        shared = Shared(self.reads, serving, self.envoy, control_records.list_hosts, threads.call, lambda: SERVICE)
        self.special = SpecialNames(shared, patience=patience, **settings)

    def load(self) -> None:
        self._follower.read(_LATER)
        self.run(self.load_special)

    async def load_special(self) -> None:
        await self.special.start(self.reported.append)

    def follow(self) -> None:
        """Apply what the log has, and wait until all of it is done."""
        self.apply(*self.read_log())

    def read_log(self) -> list[ItemKey]:
        """Return the changed item keys that the log has now."""
        return [item_key for change in self._follower.read(_LATER) for item_key in change.item_keys]

    def apply(self, *item_keys: ItemKey) -> None:
        async def act() -> None:
            self.special.apply(item_keys)
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
        served_records.put(*edges)

    def set_lease(self, seconds: int) -> None:
        """Let the lease of the gateway end in some seconds."""
        set_lease(GATEWAY.id, seconds)
        self.reads.resolver.refresh_gateways()

    def open(self, name: str, proto: Any, account: str = A) -> ServedTunnel:
        opening = Opening(Grant(account, "sshcr_1", ()), GATEWAY.id, "ts_1", "192.0.2.9", name, "", proto=proto)
        return self.store.open(opening, most=10)

    def close(self) -> None:
        self._runner.close()
