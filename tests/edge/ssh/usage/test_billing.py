"""The writing of usage where the disk does not take it, and where there is much of it."""

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from chalicelib.model.tunnels import usage as usages
from chalicelib.model.tunnels.tunnels import Traffic
from edge.ssh.usage.billing import Billing
from edge.ssh.usage.ledger import Ledger
from tests.edge.edge_table import EdgeTable


def test_usage_that_the_disk_does_not_take_is_written_to_the_store(
    edge_table: EdgeTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    def collect(ledger: Ledger, hour: str) -> None:
        ledger.add("acct_A", "2026-11-22T14", Traffic(1, 0, 0))

    async def run() -> None:
        billing = Billing("gw-1", tmp_path / "absent" / "usage.json", collect)
        writing = asyncio.create_task(billing.serve())
        await asyncio.sleep(0.2)
        assert not writing.done()
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    asyncio.run(run())
    (usage,) = usages.read_days("acct_A", "2026-11").values()
    assert usage.bytes_in > 1
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["event"], event["error"]) == ("usage_not_kept", "FileNotFoundError")


def test_usage_is_looked_at_less_often_where_that_takes_long(edge_table: EdgeTable, tmp_path: Path) -> None:
    hours: list[str] = []

    def collect(ledger: Ledger, hour: str) -> None:
        hours.append(hour)
        time.sleep(0.02)

    async def run() -> None:
        billing = Billing("gw-1", tmp_path / "usage.json", collect)
        with suppress(TimeoutError):
            await asyncio.wait_for(billing.serve(), 0.8)

    asyncio.run(run())
    assert len(hours) <= 4
