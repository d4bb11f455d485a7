"""Special names stay loaded: from their list at start, then by the log, with reads of their accounts only."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges.served import ServedAuthority, ServedEdge
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from chalicelib.storage.records import items
from chalicelib.storage.records.change_log import Place
from edge.control.special import SpecialNames
from edge.control.special_account import Shared
from edge.process.settings import Settings
from edge.serving.special_serving import SpecialServing
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Unavailable
from tests.edge.control.special_fakes import Envoy
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


@dataclass
class Reads:
    """A reader of records in memory, which counts what it reads. `away` are accounts whose reads fail."""

    store: Memory
    counts: Counter[str] = field(default_factory=Counter)
    away: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    is_up: bool = True

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
        if account in self.away:
            raise Unavailable(account)
        if account in self.broken:
            raise ValueError(account)
        self.counts[f"{account} {what}"] += 1
        edges = {id: it for id, it in self.store.edges.items() if id in ids and it.account == account}
        every = (it for it, _ in self.store.online.values() if it.account == account)
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


class World:
    """The special names of one edge host, in memory."""

    def __init__(self) -> None:
        self.store, self.envoy = Memory(), Envoy()
        self.reads = Reads(self.store)
        self.store.announce_gateway(GATEWAY, lease=60)
        self._runner = asyncio.Runner()
        self._follower = Follower(self.store, 0)
        self.start()

    def start(self, **settings: float) -> None:
        serving = SpecialServing(SETTINGS, "PEM")
        self.envoy.__init__()  # type: ignore[misc]
        shared = Shared(self.reads, serving, self.envoy, self.store.list_hosts, asyncio.to_thread, lambda: SERVICE)
        self.special = SpecialNames(self.store, shared, **settings)

    def load(self) -> None:
        self._follower.read(_LATER)
        self.run(self.special.start)

    def follow(self) -> None:
        """Apply what the log has, and wait until all of it is done."""
        self.apply(*(place for it in self._follower.read(_LATER) for place in it.places))

    def apply(self, *places: Place) -> None:
        async def act() -> None:
            self.special.apply(places)
            for _ in range(2):
                await self.special.check()
                await self._settle()

        self.run(act)

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


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def edge(host: str = HOST, id: str = FIRST, account: str = A, **more: Any) -> ServedEdge:
    found = worlds.edge(worlds.route(), id=id, hosts=(host,), account=account, **more)
    return replace(found, revision=1)


def mutual(host: str = HOST, **more: Any) -> ServedEdge:
    return edge(host, authorities=["ca_1"], **more)


def test_all_special_names_are_loaded_at_start(world: World) -> None:
    world.keep(mutual(), edge(OTHER, SECOND, B, version="1.3"), edge("n.tunnels.localhost", THIRD))
    world.open(PORT, "tcp")
    world.open("t.tunnels.localhost", "tls", B)
    world.open("h.tunnels.localhost", "https", B)
    world.load()
    assert world.envoy.names == {HOST, OTHER, "t.tunnels.localhost", "port/20001"}
    assert world.reads.counts == {f"{A} items": 1, f"{B} items": 1}
    assert world.envoy.held == {f"Special/{A}": ["gw-1/bytes"], f"Special/{B}": ["gw-1/bytes"]}


def test_a_special_name_is_loaded_and_removed_by_the_log(world: World) -> None:
    world.load()
    world.keep(mutual())
    world.follow()
    assert world.envoy.names == {HOST}
    world.store.forget(mutual())
    world.follow()
    assert (world.envoy.names, world.envoy.resources, world.special.names) == (set(), {}, frozenset())


def test_changes_of_other_accounts_and_normal_names_read_no_records(world: World) -> None:
    world.keep(mutual())
    world.load()
    world.reads.counts.clear()
    world.keep(edge("n.tunnels.localhost", THIRD, B))
    world.open("h.tunnels.localhost", "https", B)
    world.follow()
    assert world.reads.counts == {}


def test_a_name_that_is_special_no_more_is_removed(world: World) -> None:
    world.keep(mutual())
    world.load()
    world.keep(edge())
    world.follow()
    assert world.envoy.resources == {}


def test_a_changed_edge_is_read_once(world: World) -> None:
    world.keep(mutual())
    world.load()
    world.reads.counts.clear()
    world.keep(replace(mutual(OTHER), revision=2))
    world.follow()
    assert world.envoy.names == {OTHER}
    assert sum(world.reads.counts.values()) <= 2


def test_a_tunnel_at_a_port_follows_its_gateway(world: World) -> None:
    tunnel = world.open(PORT, "tcp")
    world.load()
    assert world.special.tunnel_at("20001") == tunnel
    for world.reads.is_up, names in ((False, set()), (True, {"port/20001"})):
        world.apply(Place(GATEWAYS, GATEWAY.id))
        assert world.envoy.names == names
    world.store.close(tunnel, Traffic())
    world.follow()
    assert (world.envoy.names, world.special.tunnel_at("20001")) == (set(), None)


def test_a_lapsed_tunnel_is_read_again_and_removed(world: World) -> None:
    tunnel = world.open(PORT, "tcp")
    world.load()
    entry = world.store.online[tunnel.id]
    world.store.online[tunnel.id] = (replace(entry[0], expires=1), entry[1])
    world.keep(mutual(account=A))  # reads the account, so the end of the lease is known
    world.follow()
    assert world.envoy.names == {HOST}


def test_an_account_that_is_switched_off_has_no_special_names(world: World) -> None:
    world.keep(mutual())
    world.load()
    world.store.switch(A, on=False)
    world.follow()
    assert world.envoy.names == set()
    world.store.switch(A, on=True)
    world.follow()
    assert world.envoy.names == {HOST}


@pytest.mark.parametrize("failure", ["away", "broken"])
def test_an_account_that_cannot_be_read_delays_no_other(world: World, failure: str) -> None:
    world.keep(mutual(), mutual(OTHER, id=SECOND, account=B))
    getattr(world.reads, failure).add(A)
    world.load()
    assert world.envoy.names == {OTHER}
    getattr(world.reads, failure).clear()
    world.follow()
    assert world.envoy.names == {HOST, OTHER}


def test_a_change_that_cannot_be_read_is_read_later(world: World) -> None:
    world.load()
    world.keep(mutual())
    places = [place for it in world.store.log for place in it.places]
    world.store.is_away = True
    world.apply(*places)
    assert world.envoy.names == set()
    world.store.is_away = False
    world.apply()
    assert world.envoy.names == {HOST}


def test_two_hosts_that_start_at_different_times_serve_the_same(world: World) -> None:
    world.keep(mutual(), edge(OTHER, SECOND, B, version="1.3"))
    world.open(PORT, "tcp")
    world.load()
    world.keep(replace(mutual("c.tunnels.localhost"), revision=2))
    world.follow()
    first = world.envoy.resources
    world.start()
    world.load()
    assert world.envoy.resources == first


def test_a_resync_finds_and_counts_what_the_log_did_not_report(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.keep(mutual(), replace(mutual(OTHER, id=SECOND), revision=1))
    world.start(resync_period=0)
    world.load()
    world.store.edges[FIRST] = replace(mutual("c.tunnels.localhost"), revision=2)
    world.follow()
    assert world.envoy.names == {"c.tunnels.localhost", OTHER}
    world.follow()
    world.follow()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [it["id"] for it in lines if it["event"] == "change_missed"] == [FIRST]
