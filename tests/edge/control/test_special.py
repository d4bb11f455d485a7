"""Special names stay loaded: from their list at start, then by the log, with reads of their accounts only."""

import asyncio
import gc
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import clock
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records.change_log import ItemKey
from edge.control.special_account import SpecialAccount
from edge.envoy.resources import Key
from tests import records
from tests.edge import served_records
from tests.edge.control.special_fakes import FIRST, HOST, OTHER, PORT, SECOND, THIRD, A, B, World
from tests.edge.control.waiting import until
from tests.edge.edge_table import EdgeTable
from tests.edge.plan import worlds
from tests.edge.plan.worlds import GATEWAY


@pytest.fixture
def world(edge_table: EdgeTable) -> Iterator[World]:
    world = World(edge_table)
    yield world
    world.close()


def edge(host: str = HOST, id: str = FIRST, account: str = A, **more: Any) -> ServedEdge:
    edge_record = worlds.edge(worlds.route(), id=id, hosts=(host,), account=account, **more)
    return replace(edge_record, revision=1)


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
    assert world.envoy.clusters_by_owner == {f"Special/{A}": ["gw-1/bytes"], f"Special/{B}": ["gw-1/bytes"]}


def test_the_matcher_of_a_name_waits_for_its_scope(world: World) -> None:
    world.load()
    world.keep(edge(version="1.3"))
    world.follow()
    world.keep(edge(version="1.2"))
    world.follow()
    assert world.envoy.waits == [({HOST: "1.3"}, set()), ({HOST: ""}, {HOST})]
    assert world.envoy.names == set()


def test_the_records_of_an_edge_that_is_special_no_more_are_forgotten(world: World) -> None:
    world.keep(mutual(), mutual(OTHER, id=SECOND))
    world.load()
    world.keep(edge(version="1.2"))
    world.follow()
    world.reads.counts.clear()
    world.reads.malformed.add(FIRST)
    world.keep(mutual(OTHER, id=SECOND, version="1.3"))
    world.follow()
    assert world.reads.counts == {f"{A} changed": 1}
    assert world.envoy.names == {OTHER}


def test_an_account_without_special_names_is_forgotten(world: World) -> None:
    account = f"acct_{'Z' * 27}"
    served_records.put(worlds.authority(account=account))
    world.keep(mutual(account=account))
    world.load()
    assert world.envoy.names == {HOST}
    served_records.remove(mutual(account=account))
    world.follow()
    assert world.envoy.names == set()
    assert [
        account_record
        for account_record in gc.get_objects()
        if isinstance(account_record, SpecialAccount) and account_record.account == account
    ] == []


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
    for seconds, names in ((0, set()), (60, {"port/20001"})):
        world.set_lease(seconds)
        world.apply(ItemKey(GATEWAYS, GATEWAY.id))
        assert world.envoy.names == names
    tunnels.close_tunnel(tunnel.account, tunnel.id)
    world.follow()
    assert (world.envoy.names, world.special.tunnel_at("20001")) == (set(), None)


def test_a_start_reports_its_progress_since_the_supervisor_gives_up_without(world: World) -> None:
    world.keep(mutual(), mutual(OTHER, id=SECOND, account=B))
    world.load()
    assert world.reported[0] == "the control process is reading special names: 0 of 2 accounts"


def test_a_start_does_not_need_its_report(world: World) -> None:
    def fail(_text: str) -> None:
        raise OSError("No space left on device")

    world.keep(mutual())
    world.run(lambda: world.special.start(fail))
    assert world.envoy.names == {HOST}


BYTES = "t.tunnels.localhost"


def test_a_tunnel_that_takes_its_name_over_leaves_no_moment_without_the_name(world: World) -> None:
    former = [world.open(BYTES, "tls"), world.open(PORT, "tcp")]
    world.load()
    new = [world.open(BYTES, "tls"), world.open(PORT, "tcp")]
    world.follow()
    assert world.special.tunnel_at("20001") == new[1]
    assert world.envoy.names == {BYTES, "port/20001"}
    assert world.envoy.removed == {Key("listener", f"tunnel/{former[0].id}")}


def test_a_tunnel_that_takes_its_name_over_during_a_read_leaves_no_moment_without_the_name(world: World) -> None:
    former = world.open(BYTES, "tls")
    world.load()

    async def act() -> None:
        world.reads.can_return.clear()
        world.special.apply([ItemKey(GATEWAYS, GATEWAY.id)])
        await until(lambda: world.reads.counts[f"{A} changed"] == 1)
        new = world.open(BYTES, "tls")
        world.special.apply(world.read_log())
        await world.special.check()
        world.reads.can_return.set()
        await world.settle()
        assert world.special.names == {BYTES}
        assert Key("listener", f"tunnel/{new.id}") in world.envoy.resources

    world.run(act)
    assert world.envoy.removed == {Key("listener", f"tunnel/{former.id}")}


def test_an_entry_that_changes_while_it_is_read_is_read_again(world: World) -> None:
    world.load()
    world.keep(mutual())
    was_read, can_return = threading.Event(), threading.Event()

    def delay_entries(operation: str, body: str) -> None:
        if operation == "BatchGetItem" and "edge#/special/" in body:
            was_read.set()
            can_return.wait(5)

    world.store.after = delay_entries

    async def act() -> None:
        world.special.apply(world.read_log())
        checking = asyncio.create_task(world.special.check())
        await until(was_read.is_set)
        world.store.forget(mutual())
        world.special.apply(world.read_log())
        can_return.set()
        await checking
        await world.settle()

    world.run(act)
    assert (world.envoy.names, world.special.names) == (set(), frozenset())


def test_a_lapsed_tunnel_is_read_again_and_removed(world: World) -> None:
    tunnel = world.open(PORT, "tcp")
    lease = {"lease": clock.seconds() + 2}
    dynamodb.do(Write.update(tunnels.scope(A), tunnel.id, Condition(""), sets=lease))
    world.load()
    assert world.envoy.names == {"port/20001"}

    def is_removed() -> bool:
        world.follow()
        return not world.envoy.names

    end = time.monotonic() + 10
    while not is_removed():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_account_that_is_switched_off_has_no_special_names(world: World) -> None:
    world.keep(mutual())
    world.load()
    served_records.put_account(A, active=False)
    world.follow()
    assert world.envoy.names == set()
    served_records.put_account(A)
    world.follow()
    assert world.envoy.names == {HOST}


@pytest.mark.parametrize("failure", ["away", "broken"])
def test_an_account_that_cannot_be_read_delays_no_other(world: World, failure: str) -> None:
    world.keep(mutual(), mutual(OTHER, id=SECOND, account=B))
    getattr(world.reads, failure).add(A)
    world.load()
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER}, {HOST})
    getattr(world.reads, failure).clear()
    world.follow()
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER}, set())


def test_an_account_whose_first_read_does_not_end_delays_no_other(world: World) -> None:
    world.keep(mutual(), mutual(OTHER, id=SECOND, account=B))
    world.start(timeout=0.3)
    world.reads.stuck.add(A)
    start = time.monotonic()
    world.load()
    assert time.monotonic() < start + 5
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER}, {HOST})
    assert not world.special.is_complete  # so an Envoy of an earlier control keeps what the closed host needs
    world.reads.can_go_on.set()
    world.run(world.settle)
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER}, set())
    assert world.special.is_complete


@pytest.mark.parametrize(("failure", "is_complete"), [("away", False), ("broken", True)])
def test_envoy_keeps_what_it_has_until_the_store_can_be_read(world: World, failure: str, is_complete: bool) -> None:
    world.keep(mutual())
    getattr(world.reads, failure).add(A)
    world.load()
    assert (world.special.is_busy, world.special.is_complete) == (False, is_complete)
    getattr(world.reads, failure).clear()
    world.follow()
    assert world.special.is_complete


def test_a_start_waits_some_seconds_for_an_account_that_cannot_be_read(world: World) -> None:
    world.keep(mutual())
    world.start(patience=30)
    world.reads.away.add(A)

    async def act() -> None:
        starting = asyncio.create_task(world.load_special())
        while not world.envoy.closed:
            await asyncio.sleep(0.005)
        assert not starting.done()
        world.reads.away.clear()
        await world.special.check()
        await starting

    world.run(act)
    assert (world.envoy.names, world.envoy.closed) == ({HOST}, set())


@pytest.mark.parametrize("is_at_start", [True, False])
def test_only_the_names_of_malformed_records_are_closed(world: World, is_at_start: bool) -> None:
    third = "c.tunnels.localhost"
    world.keep(mutual(), mutual(OTHER, id=SECOND), mutual(third, id=THIRD))
    if not is_at_start:
        world.load()
        assert world.envoy.closed == set()
    world.reads.malformed.add(SECOND)
    if is_at_start:
        world.load()
    else:
        world.keep(replace(mutual(OTHER, id=SECOND), revision=2))
        world.follow()
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER, third}, {OTHER})
    reads = world.reads.counts.total()
    world.apply()
    assert world.reads.counts.total() == reads
    world.reads.malformed.clear()
    world.keep(replace(mutual(OTHER, id=SECOND), revision=3))
    world.follow()
    assert (world.envoy.names, world.envoy.closed) == ({HOST, OTHER, third}, set())


def test_a_change_that_cannot_be_read_is_read_later(world: World) -> None:
    world.load()
    world.keep(mutual())
    item_keys = world.read_log()
    world.store.is_away = True
    world.apply(*item_keys)
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
    world.keep(replace(mutual("c.tunnels.localhost"), revision=2))
    for entry in records.with_scope("changes#"):
        records.remove(entry)
    world.follow()
    assert world.envoy.names == {"c.tunnels.localhost", OTHER}
    world.follow()
    world.follow()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["id"] for line in lines if line["event"] == "change_missed"] == [FIRST]
