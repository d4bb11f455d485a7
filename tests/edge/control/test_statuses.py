"""Writes of reports: the lease of the host, failed and slow writes, and what an earlier process left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from chalicelib.model.edges.edge_status import Report
from edge.control.statuses import Statuses
from tests.edge.control.waiting import until
from tests.edge.memory import Memory

A, EDGE, HOST = "acct_a", "edghts_1", "one"
PLACE = (HOST, A, EDGE)
FIRST = Report(1, "2026-01-01T00:00:00Z", HOST, {"a.example.com:443": "no"})
SECOND = Report(2, "2026-01-01T00:00:09Z", HOST, {"a.example.com:443": "again"})
FOUND: list[tuple[str, str]] = []  # reports of an earlier process
Test: TypeAlias = Callable[[Memory, Statuses], Awaitable[None]]


@asynccontextmanager
async def writing(store: Memory, has_envoy: Callable[[], bool]) -> AsyncIterator[Statuses]:
    statuses = Statuses(store, HOST, has_envoy, lambda: ["*.tunnels.localhost"], FOUND.extend)
    serving = asyncio.create_task(statuses.serve())
    try:
        yield statuses
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def run(test: Test, store: Memory | None = None, has_envoy: Callable[[], bool] = lambda: True) -> Memory:
    """Run a test. Return the store after the end of the host."""
    used = store or Memory()

    async def ask() -> None:
        async with writing(used, has_envoy) as statuses:
            await test(used, statuses)

    asyncio.run(ask())
    return used


def test_a_report_is_written_and_removed() -> None:
    async def test(store: Memory, statuses: Statuses) -> None:
        statuses.schedule(A, EDGE, FIRST)
        await until(lambda: store.statuses == {PLACE: FIRST})
        statuses.schedule(A, EDGE, None)
        await until(lambda: store.statuses == {})
        assert store.told == [(EDGE, FIRST), (EDGE, None)]

    run(test)


def test_changes_in_quick_succession_are_written_together() -> None:
    async def test(store: Memory, statuses: Statuses) -> None:
        statuses.schedule(A, EDGE, FIRST)
        await until(lambda: store.statuses == {PLACE: FIRST})
        for report in (None, FIRST, SECOND):
            statuses.schedule(A, EDGE, report)
        await until(lambda: store.statuses == {PLACE: SECOND})
        assert store.told == [(EDGE, FIRST), (EDGE, SECOND)]

    run(test)


def test_a_failed_write_is_repeated() -> None:
    async def test(store: Memory, statuses: Statuses) -> None:
        store.unreachable.add(A)
        statuses.schedule(A, EDGE, FIRST)
        statuses.schedule("acct_b", "edghts_2", FIRST)
        await until(lambda: store.statuses == {(HOST, "acct_b", "edghts_2"): FIRST})
        store.unreachable.clear()
        await until(lambda: store.statuses.get(PLACE) == FIRST)

    run(test)


def test_reports_of_an_earlier_process_are_removed_unless_they_apply_again() -> None:
    async def test(store: Memory, statuses: Statuses) -> None:
        statuses.schedule(A, "edghts_2", SECOND)
        await until(lambda: store.statuses == {(HOST, A, "edghts_2"): SECOND, ("other", A, EDGE): FIRST})

    statuses = {PLACE: FIRST, (HOST, A, "edghts_2"): FIRST, ("other", A, EDGE): FIRST}
    FOUND.clear()
    run(test, Memory(statuses=statuses))
    assert FOUND == [(A, EDGE), (A, "edghts_2")]


def test_a_host_is_live_while_its_envoy_is_connected() -> None:
    connected = [False]

    async def test(store: Memory, statuses: Statuses) -> None:
        await asyncio.sleep(0.3)
        assert store.hosts == {}
        connected[0] = True
        await until(lambda: store.list_live_hosts() == [HOST])

    assert run(test, has_envoy=lambda: connected[0]).list_live_hosts() == []
