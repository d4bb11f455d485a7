"""Trials: the host that tries an edge, the names that it chooses, and what it stores."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.records.change_log import ItemKey
from edge.control import trials
from edge.control.names.name_resolver import NameResolver
from edge.control.trials import EdgeHost, Trials
from edge.process.settings import Settings
from tests import openssl
from tests.conftest import free_port
from tests.edge.control.waiting import until
from tests.edge.edge_table import EdgeTable
from tests.edge.plan import worlds
from tests.edge.plan.worlds import DOMAIN, SERVICE, A

NAMES = [f"{letter}.{DOMAIN}" for letter in "abcde"]
EDGE = replace(worlds.edge(hosts=NAMES), revision=3)
ITEM_KEY = ItemKey(f"{A}#{kinds.HTTPS_EDGES.path}", EDGE.id)
TUNNEL = ItemKey(tunnels.scope(A), "tn_1")
CERTIFICATE = ItemKey(f"{A}#{kinds.TLS_CERTIFICATES.path}", "cert_1")


@dataclass
class World:
    """Edge hosts that share a store. `visited` are the server names of their connections, `chosen` hosts of results.

    `loaded` are the plans of edges with loaded names. If `is_changing`, their account is being updated.
    """

    store: EdgeTable
    hosts: list[Trials]
    loaded: dict[tuple[str, str], Plan] = field(default_factory=dict)
    is_changing: bool = False
    errors: dict[str, str] = field(default_factory=dict)
    visited: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)

    def change(self, edge: ServedEdge) -> None:
        self.store.keep(edge)
        self.apply(ITEM_KEY)

    def apply(self, *item_keys: ItemKey) -> None:
        for host in self.hosts:
            host.apply(item_keys)

    async def result(self, revision: int) -> dict[str, str]:
        """Wait for the trial of a revision. Return its errors."""
        await until(lambda: (trial := self.trial()) is not None and trial.revision == revision)
        trial = self.trial()
        assert trial
        self.chosen.add(trial.host)
        return dict(trial.errors)

    def host(self, id: str, settings: Settings) -> EdgeHost:
        reader, answers = NameResolver(DOMAIN), (lambda _: dict(self.errors), lambda _: True)
        state = lambda _: self.is_changing, lambda *key: self.loaded.get(key)
        return EdgeHost(settings, id, reader, lambda: SERVICE, *state, *answers)

    def trial(self) -> Report | None:
        return self.store.trial(A, EDGE.id)


Test: TypeAlias = Callable[[World], Awaitable[None]]


@asynccontextmanager
async def listening(world: World, port: int, folder: Path) -> AsyncIterator[None]:
    """Accept TLS connections, and record their server names."""
    trial_pair = openssl.issue("/CN=trial")
    for name, text in (("chain", trial_pair.certificate), ("key", trial_pair.key)):
        (folder / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain", folder / "key")
    context.sni_callback = lambda _, name, __: world.visited.append(name)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port, ssl=context)
    async with server:
        yield


def run(test: Test, store: EdgeTable, folder: Path, *, ids: Sequence[str] = ("one",), is_open: bool = True) -> None:
    async def ask() -> None:
        port = free_port()
        for id in ids:
            edge_status.announce(id, lease=600)
        world = World(store, [])
        world.hosts += [Trials(world.host(id, Settings(edge_port=port))) for id in ids]
        serving = [asyncio.create_task(host.serve()) for host in world.hosts]
        try:
            if not is_open:
                return await test(world)
            async with listening(world, port, folder):
                await test(world)
        finally:
            for task in serving:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*serving)

    asyncio.run(ask())


def test_one_host_connects_to_four_names_and_stores_the_result(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.change(EDGE)
        assert await world.result(3) == {}
        assert sorted(world.visited) == NAMES[:4]
        world.change(replace(EDGE, revision=4, hostports=EDGE.hostports[4:]))
        assert await world.result(4) == {}
        assert world.visited[4:] == NAMES[4:]
        assert world.chosen == {trials.choose_host(("one", "two", "three"), EDGE.id)}
        world.store.forget(EDGE)
        world.apply(ITEM_KEY)
        await until(lambda: world.trial() is None)

    run(test, edge_table, tmp_path, ids=("one", "two", "three"))


def test_the_trial_of_a_loaded_edge_reads_no_records(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        calls: list[str] = []
        world.store.before = lambda operation, body: calls.append(operation)
        world.is_changing = True
        world.apply(ITEM_KEY)
        await asyncio.sleep(0.5)
        assert world.trial() is None
        world.loaded[A, EDGE.id] = worlds.plan_of(EDGE.id, EDGE)
        world.is_changing = False
        assert await world.result(3) == {}
        assert sorted(world.visited) == NAMES[:4]
        # the live hosts, and the result, whose record is new
        assert calls == ["Query", "UpdateItem", "PutItem"]
        world.loaded[A, EDGE.id] = worlds.plan_of(EDGE.id, replace(EDGE, revision=4))
        world.apply(ITEM_KEY)
        assert await world.result(4) == {}
        assert calls[3:] == ["UpdateItem"]

    run(test, edge_table, tmp_path)


def test_an_edge_with_errors_is_tried_again_when_its_account_changes(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.errors["cert_1"] = "too weak"
        world.change(replace(EDGE, hostports=EDGE.hostports[:1]))
        assert await world.result(3) == {"cert_1": "too weak"}
        world.errors.clear()
        world.apply(TUNNEL)
        await asyncio.sleep(0.5)
        assert len(world.visited) == 1
        world.apply(CERTIFICATE)
        await until(lambda: (trial := world.trial()) is not None and trial.errors == {})
        world.apply(CERTIFICATE)
        await asyncio.sleep(0.5)
        assert len(world.visited) == 2

    run(test, edge_table, tmp_path)


def test_a_name_that_is_refused_without_a_reason_has_no_result(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.change(EDGE)
        await asyncio.sleep(1)
        assert world.trial() is None
        world.errors[EDGE.hostports[0]] = "no"
        assert await world.result(3) == {EDGE.hostports[0]: "no"}

    run(test, edge_table, tmp_path, is_open=False)


def test_a_slow_account_delays_no_other(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def test(world: World) -> None:
        def delay(_: str, body: str) -> None:
            if "acct_slow" in body:
                time.sleep(2)

        world.store.before = delay
        for number in range(8):
            world.apply(ItemKey(f"acct_slow#{kinds.HTTPS_EDGES.path}", f"edghts_slow{number}"))
        world.change(EDGE)
        async with asyncio.timeout(1.5):
            assert await world.result(3) == {}

    run(test, edge_table, tmp_path)


@pytest.mark.parametrize("edge", [f"edghts_{number}" for number in range(5)])
def test_an_edge_stays_with_its_host_while_that_is_live(edge: str) -> None:
    hosts = [f"host{number}" for number in range(5)]
    chosen_host = trials.choose_host(hosts, edge)
    assert trials.choose_host(hosts[::-1], edge) == chosen_host
    assert {trials.choose_host([host for host in hosts if host in (chosen_host, other)], edge) for other in hosts} == {
        chosen_host
    }


@pytest.mark.parametrize(
    ("edge", "names"),
    [
        (EDGE, NAMES[:4]),
        (worlds.edge(hosts=[f"*.{DOMAIN}"]), [f"edge-trial.{DOMAIN}"]),
        (worlds.edge(hosts=["lost.example.com"]), []),
        (worlds.edge(hosts=[NAMES[0]], terminate_at="upstream"), []),
        (worlds.edge(hosts=[f"{DOMAIN}:20000"], id="edgtcp_1"), []),
    ],
)
def test_names_with_handshakes_on_this_host_are_tried(edge: ServedEdge, names: list[str]) -> None:
    assert trials.choose_names(worlds.plan_of(edge.id, edge)) == names
