"""Writes of reports: the lease of the host, failed and slow writes, and what an earlier process left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from edge.control.statuses import Statuses
from tests.edge.control.waiting import until
from tests.edge.edge_table import EdgeTable, fail

A, EDGE, HOST = "acct_a", "edghts_1", "one"
ITEM_KEY = (A, EDGE)
FIRST = Report(1, "2026-01-01T00:00:00Z", HOST, {"a.example.com:443": "no"})
SECOND = Report(2, "2026-01-01T00:00:09Z", HOST, {"a.example.com:443": "again"})
EARLIER_REPORTS: list[tuple[str, str]] = []  # reports of an earlier process
Test: TypeAlias = Callable[[EdgeTable, Statuses], Awaitable[None]]


@asynccontextmanager
async def writing(store: EdgeTable, has_envoy: Callable[[], bool]) -> AsyncIterator[Statuses]:
    statuses = Statuses(HOST, has_envoy, lambda: ["*.tunnels.localhost"], EARLIER_REPORTS.extend)
    serving = asyncio.create_task(statuses.serve())
    try:
        yield statuses
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def run(test: Test, store: EdgeTable, has_envoy: Callable[[], bool] = lambda: True) -> None:
    """Run a test until the end of the host."""

    async def ask() -> None:
        async with writing(store, has_envoy) as statuses:
            await test(store, statuses)

    asyncio.run(ask())


def record_writes(store: EdgeTable) -> list[str]:
    """Return the list to which the operation of each further write of a report is added."""
    operations: list[str] = []
    store.before = lambda operation, body: operations.extend([operation] if f"{A} {EDGE}" in body else [])
    return operations


def test_a_report_is_written_and_removed(edge_table: EdgeTable) -> None:
    async def test(store: EdgeTable, statuses: Statuses) -> None:
        operations = record_writes(store)
        statuses.schedule(A, EDGE, FIRST)
        await until(lambda: edge_status.read_statuses(HOST) == {ITEM_KEY: FIRST})
        statuses.schedule(A, EDGE, None)
        await until(lambda: edge_status.read_statuses(HOST) == {})
        assert operations == ["UpdateItem", "PutItem", "DeleteItem"]  # there is none to update

    run(test, edge_table)


def test_changes_in_quick_succession_are_written_together(edge_table: EdgeTable) -> None:
    async def test(store: EdgeTable, statuses: Statuses) -> None:
        operations = record_writes(store)
        statuses.schedule(A, EDGE, FIRST)
        await until(lambda: edge_status.read_statuses(HOST) == {ITEM_KEY: FIRST})
        for report in (None, FIRST, SECOND):
            statuses.schedule(A, EDGE, report)
        await until(lambda: edge_status.read_statuses(HOST) == {ITEM_KEY: SECOND})
        assert operations == ["UpdateItem", "PutItem", "UpdateItem"]

    run(test, edge_table)


def test_a_failed_write_is_repeated(edge_table: EdgeTable) -> None:
    async def test(store: EdgeTable, statuses: Statuses) -> None:
        def fail_of_account(_: str, body: str) -> None:
            if f"{A} " in body:
                fail()

        store.before = fail_of_account
        statuses.schedule(A, EDGE, FIRST)
        statuses.schedule("acct_b", "edghts_2", FIRST)
        await until(lambda: edge_status.read_statuses(HOST) == {("acct_b", "edghts_2"): FIRST})
        store.before = lambda *_: None
        await until(lambda: edge_status.read_statuses(HOST).get(ITEM_KEY) == FIRST)

    run(test, edge_table)


def test_reports_of_an_earlier_process_are_removed_unless_they_apply_again(edge_table: EdgeTable) -> None:
    async def test(store: EdgeTable, statuses: Statuses) -> None:
        statuses.schedule(A, "edghts_2", SECOND)
        await until(lambda: edge_status.read_statuses(HOST) == {(A, "edghts_2"): SECOND})

    other = replace(FIRST, host="other")
    for edge, report in ((EDGE, FIRST), ("edghts_2", FIRST), (EDGE, other)):
        edge_status.write(A, edge, report)
    EARLIER_REPORTS.clear()
    run(test, edge_table)
    assert sorted(EARLIER_REPORTS) == [(A, EDGE), (A, "edghts_2")]
    assert edge_status.read_statuses("other") == {ITEM_KEY: other}


def test_a_host_is_live_while_its_envoy_is_connected(edge_table: EdgeTable) -> None:
    connected = [False]

    async def test(store: EdgeTable, statuses: Statuses) -> None:
        await asyncio.sleep(0.3)
        assert edge_status.list_hosts() == []
        connected[0] = True
        await until(lambda: edge_status.list_hosts() == [HOST])

    run(test, edge_table, has_envoy=lambda: connected[0])
    assert edge_status.list_hosts() == []
