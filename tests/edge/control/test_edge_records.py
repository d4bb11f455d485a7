"""What control reads of edges: as much as they lead to, what was changed alone, and no account for another."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.modules import BackendModule, MutualTlsModule
from chalicelib.model.edges.served import (
    UNREADABLE,
    Modules,
    ServedAuthority,
    ServedBackend,
    ServedEdge,
    ServedRoute,
    empty_part,
)
from edge.control.edge_records import EdgeRecord, EdgeRecords
from edge.plan.record_index import Removed
from edge.store.changes import Follower
from tests.edge.memory import Memory


def backend(account: str, value: HttpResponse | TunnelGroup | Weighted) -> ServedBackend:
    prefix = {HttpResponse: "bkdhr", TunnelGroup: "bkdtg", Weighted: "bkdwd"}[type(value)]
    return ServedBackend(account, ids.new(prefix), value)


def answering(account: str, status: int = 200) -> ServedBackend:
    return backend(account, HttpResponse(status_code=status))


def edge(account: str, *backends: str, revision: int = 1, id: str = "", **fields: Any) -> ServedEdge:
    routes = tuple(
        ServedRoute(ids.new("edghtsrt"), "path_prefix", f"/{number}", Modules(BackendModule(backend_id=id)))
        for number, id in enumerate(backends)
    )
    name = id or ids.new("edghts")
    return ServedEdge(account, name, revision, (f"{name.lower()}.example.com:443",), routes=routes, **fields)


class Control:
    """What one control takes up of a store."""

    def __init__(self, store: Memory) -> None:
        self.edges, self.known, self.missed = EdgeRecords(store), dict[str, EdgeRecord](), list[str]()
        self._follower = Follower(store, time.time())

    async def begin(self) -> None:
        self._follower.read(time.time())
        self.edges.start_resync()
        await self.step(timeout=None)

    async def step(self, *, timeout: float | None = 1.0) -> list[EdgeRecord | Removed]:
        places = [place for change in self._follower.read(time.time()) for place in change.places]
        self.missed += self.edges.request(places)
        facts = await self.edges.collect(timeout=timeout)
        for fact in facts:
            if isinstance(fact, Removed):
                del self.known[fact.id]
            else:
                self.known[fact.id] = fact
        return facts

    async def start_resync(self) -> list[EdgeRecord | Removed]:
        """Look at all; return what differed."""
        self.edges.start_resync()
        return [*await self.step(timeout=None), *await self.step()]


def by_id(values: Iterable[EdgeRecord]) -> dict[str, EdgeRecord]:
    return {it.id: it for it in values}


def test_all_edges_are_found_with_what_they_lead_to_and_nothing_else() -> None:
    async def run() -> None:
        store = Memory()
        leaf, group = answering("acct_a"), backend("acct_a", TunnelGroup(labels={"a": "b"}))
        shared = backend("acct_a", Weighted(backends={leaf.id: 1, "bkdhr_gone": 1}))
        twice = backend("acct_a", Weighted(backends={shared.id: 1}))
        authority = ServedAuthority("acct_a", ids.new("ca"), "pem")
        mutual = Modules(mutual_tls=MutualTlsModule(certificate_authority_ids=[authority.id]))
        first, other = edge("acct_a", twice.id, group.id, modules=mutual), edge("acct_b")
        silent = ServedEdge("acct_a", ids.new("edghts"), 1, ())
        for value in (leaf, group, shared, twice, authority, first, other, silent, answering("acct_a")):
            store.keep(value)
        control = Control(store)
        await control.begin()
        assert control.known == by_id([leaf, group, shared, twice, authority, first, other])
        assert (await control.start_resync(), control.missed) == ([], [])

    asyncio.run(run())


def test_edges_of_tcp_are_read_again_with_the_reserved_addresses_of_their_account() -> None:
    async def run() -> None:
        store = Memory()
        port = ServedEdge("acct_a", ids.new("edgtcp"), 1, ("tunnels.localhost:20001",))
        for value in (port, edge("acct_a")):
            store.keep(value)
        control = Control(store)
        await control.begin()
        await control.step()
        store.edges[port.id] = telling = replace(port, proxied=frozenset(port.hostports))
        store.tell("acct_a", "/reserved_addrs", "ra_1")
        assert await control.step() == [telling]

    asyncio.run(run())


def test_what_was_changed_is_read_alone() -> None:
    async def run() -> None:
        store, asked = Memory(), list[str]()
        leaf, unnamed = answering("acct_a"), answering("acct_a")
        mine, other = edge("acct_a", leaf.id), edge("acct_a")
        for value in (leaf, unnamed, mine, other):
            store.keep(value)
        control = Control(store)
        await control.begin()
        await control.step()
        read_edge, read_parts = store.read_edge, store.read_parts
        store.read_edge = lambda account, id: asked.append(id) or read_edge(account, id)  # type: ignore[method-assign,func-returns-value]
        store.read_parts = lambda account, ids: asked.extend(ids) or read_parts(account, ids)  # type: ignore[method-assign,func-returns-value]
        for change in (ServedBackend("acct_a", leaf.id, HttpResponse(status_code=503)), unnamed):
            store.keep(change)
        assert [it.id for it in await control.step()] == asked == [leaf.id]
        asked.clear()
        grown = edge("acct_a", leaf.id, unnamed.id, id=mine.id, revision=2)
        store.keep(grown)
        assert {it.id for it in await control.step()} == {*asked} == {mine.id, unnamed.id}
        asked.clear()
        store.forget(other)
        assert await control.step() == [Removed(other.id)]
        assert asked == [other.id]

    asyncio.run(run())


def test_the_edges_of_an_account_that_is_switched_off_are_served_no_more_until_it_is_on_again() -> None:
    async def run() -> None:
        store, leaf, other = Memory(), answering("acct_a"), edge("acct_b")
        mine = edge("acct_a", leaf.id)
        for value in (leaf, mine, other):
            store.keep(value)
        control = Control(store)
        await control.begin()
        store.switch("acct_a", on=False)
        assert await control.step() == [Removed(mine.id)]
        assert await control.start_resync() == []
        started = Control(store)
        await started.begin()
        assert mine.id not in started.known
        store.switch("acct_a", on=True)
        assert (await control.step(), control.known[mine.id]) == ([mine], mine)
        assert await started.step() == [mine]
        assert (control.missed, started.missed) == ([], [])

    asyncio.run(run())


def test_an_edge_that_is_read_while_its_account_is_switched_off_is_not_served() -> None:
    async def run() -> None:
        store = Memory(delays={"acct_a": 0.1})
        control = Control(store)
        await control.begin()
        mine = edge("acct_a")
        store.keep(mine)
        await control.step(timeout=0.01)
        store.switch("acct_a", on=False)
        for _ in range(3):
            await control.step()
        assert mine.id not in control.known

    asyncio.run(run())


def test_what_is_named_before_it_is_there_is_taken_up_when_it_comes() -> None:
    async def run() -> None:
        store, late = Memory(), answering("acct_a")
        store.keep(edge("acct_a", late.id))
        control = Control(store)
        await control.begin()
        store.keep(late)
        assert await control.step() == [late]
        store.forget(late)
        assert await control.step() == [Removed(late.id)]

    asyncio.run(run())


def test_a_part_that_is_changed_while_its_account_is_read_is_read_again() -> None:
    async def run() -> None:
        store, leaf = Memory(delays={"acct_a": 0.1}), answering("acct_a")
        store.keep(leaf)
        control = Control(store)
        await control.begin()
        store.keep(edge("acct_a", leaf.id))
        await control.step(timeout=0.15)  # the edge is read, its backend is being read
        changed = ServedBackend("acct_a", leaf.id, HttpResponse(status_code=503))
        store.keep(changed)
        for _ in range(3):
            await control.step()
        assert control.known[leaf.id] == changed

    asyncio.run(run())


@pytest.mark.parametrize("how", ["slow", "unreachable", "unreadable"])
def test_an_account_that_cannot_be_read_delays_nobody_else(how: str) -> None:
    async def run() -> None:
        store, bad, good = Memory(), edge("acct_bad"), edge("acct_good")
        store.keep(bad)
        store.keep(good)
        control = Control(store)
        await control.begin()
        if how == "slow":
            store.delays["acct_bad"] = 0.7
        else:
            {"unreachable": store.unreachable, "unreadable": store.unreadable}[how].add("acct_bad")
        changed = [edge(it.account, id=it.id, revision=2) for it in (bad, good)]
        for it in changed:
            store.keep(it)
        began = time.monotonic()
        facts = await control.step(timeout=0.5)
        assert time.monotonic() - began < 0.9
        closed = [replace(bad, revision=0, error=UNREADABLE)] if how == "unreadable" else []
        assert sorted(facts, key=lambda it: it.id) == [*closed, changed[1]]  # ids grow
        store.unreachable.clear()
        store.unreadable.clear()
        await control.step(timeout=None)
        assert await control.start_resync() == ([changed[0]] if how == "unreadable" else [])
        assert control.known == by_id(changed)

    asyncio.run(run())


def test_what_is_led_to_and_cannot_be_read_is_known_as_such() -> None:
    async def run() -> None:
        store, leaf = Memory(), answering("acct_a")
        authority = ServedAuthority("acct_a", ids.new("ca"), "pem")
        for value in (leaf, authority):
            store.keep(value)
        mutual = Modules(mutual_tls=MutualTlsModule(certificate_authority_ids=[authority.id]))
        mine = edge("acct_a", leaf.id, modules=mutual)
        store.keep(mine)
        control = Control(store)
        await control.begin()
        store.unreadable.add("acct_a")
        for value in (leaf, authority):
            store.keep(value)
        unreadable = [empty_part("acct_a", it.id) for it in (leaf, authority)]
        assert sorted(await control.step(), key=lambda it: it.id) == sorted(unreadable, key=lambda it: it.id)
        assert control.known == by_id([mine, *unreadable])

    asyncio.run(run())


def test_an_edge_whose_records_do_not_say_where_it_listens_stays_where_it_was() -> None:
    async def run() -> None:
        store, mine = Memory(), edge("acct_a")
        store.keep(mine)
        control = Control(store)
        await control.begin()
        lost = ServedEdge("acct_a", mine.id, 2, (), error=UNREADABLE)
        store.keep(lost)
        assert await control.step() == [replace(lost, hostports=mine.hostports)]
        store.switch("acct_a", on=False)
        assert await control.step() == [Removed(mine.id)]

    asyncio.run(run())


def test_a_start_waits_for_nobody_whose_records_cannot_be_reached() -> None:
    async def run() -> None:
        store, good = Memory(unreachable={"acct_bad"}), edge("acct_good")
        store.keep(edge("acct_bad"))
        store.keep(good)
        control = Control(store)
        await control.begin()
        assert control.known == {good.id: good}

    asyncio.run(run())


def test_a_change_that_the_log_does_not_tell_is_found_by_a_look_and_counted() -> None:
    async def run() -> None:
        store, leaf = Memory(), answering("acct_a")
        mine, gone = edge("acct_a", leaf.id), edge("acct_b")
        for value in (leaf, mine, gone):
            store.keep(value)
        control = Control(store)
        await control.begin()
        await control.step()
        changed = ServedBackend("acct_a", leaf.id, HttpResponse(status_code=503))
        later, new = edge("acct_a", leaf.id, id=mine.id, revision=2), edge("acct_c")
        for value in (changed, later, new):
            store.keep(value)
        store.forget(gone)
        store.log.clear()
        await control.start_resync()
        assert control.known == by_id([changed, later, new])
        assert sorted(control.missed) == sorted([leaf.id, mine.id, new.id, gone.id])
        store.forget(later)
        await control.step()
        assert (await control.start_resync(), len(control.missed)) == ([Removed(leaf.id)], 4)

    asyncio.run(run())


def test_what_a_reserved_address_says_is_found_by_a_look_where_the_log_does_not_tell() -> None:
    async def run() -> None:
        store = Memory()
        port = ServedEdge("acct_a", ids.new("edgtcp"), 1, ("tunnels.localhost:20001",))
        store.keep(port)
        control = Control(store)
        await control.begin()
        await control.step()
        for told in (False, True):
            store.edges[port.id] = telling = replace(port, proxied=frozenset() if told else frozenset(port.hostports))
            control.edges.start_resync()
            assert await control.step(timeout=None) == [telling]
            if told:
                store.tell("acct_a", "/reserved_addrs", "ra_1")
            await control.step()
            assert control.missed == [port.id]

    asyncio.run(run())


def test_a_change_that_a_look_sees_before_the_log_is_read_is_not_missed() -> None:
    async def run() -> None:
        store, mine = Memory(), edge("acct_a")
        store.keep(mine)
        control = Control(store)
        await control.begin()
        await control.step()
        later = edge("acct_a", id=mine.id, revision=2)
        store.keep(later)
        (told,) = store.log[-1:]
        del store.log[-1:]
        control.edges.start_resync()
        assert await control.step(timeout=None) == [later]
        store.log.append(told)
        await control.step()
        await control.step()
        assert control.missed == []

    asyncio.run(run())
