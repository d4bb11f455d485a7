"""`revocations list` in parallel: over a large simulated store, after a crash, and beside deleted accounts."""

from pathlib import Path
from typing import Any

import pytest

from bench.restore import LATER, SimulatedTables, simulated
from chalicelib.operator.bulk.revoked_since import Comparison
from chalicelib.operator.command_line import CommandError
from chalicelib.operator.tenants.deletion import Deletion
from tests.operator import restored
from tests.operator.commands import Output, run_without_errors
from tests.operator.restored import Tables
from tests.operator.tenants import killing
from tests.transports import Client

PATH = "/federated_credentials"


def compare(folder: Path) -> list[str]:
    return [*Comparison(LATER, folder, lambda _: None).run()]


def test_requests_are_parallel_and_pages_are_small(tmp_path: Path) -> None:
    store = SimulatedTables(4_000, scan=0.01, batch=0.002)
    with simulated(store):
        assert len(compare(tmp_path)) == 4
    assert store.max_running > 4  # of 16: how many meet depends on the machine
    assert store.largest <= 1_000  # 16 pages of 1 MB would take 200 MB of memory


def test_a_killed_comparison_continues(tmp_path: Path) -> None:
    with simulated(SimulatedTables(4_000, scan=0, batch=0)):
        killing.complete(lambda: compare(tmp_path), seed=7, limit=30)
        assert len(compare(tmp_path)) == 4


def test_an_account_that_was_deleted_since_is_listed(
    admin: Client, stranger: Client, tables: Tables, capsys: Output
) -> None:
    tables.remember()
    Deletion(stranger.account, "delete", lambda _: None, sleep=lambda _: None).run()
    tables.restore()
    lines: Any = run_without_errors(capsys, "revocations", "list", restored.LATER)
    assert f'{stranger.account} {stranger.account} "other"' in lines
    assert not [line for line in lines if line.startswith(admin.account)]


def test_federated_credentials_that_ended_since_are_listed(admin: Client, tables: Tables, capsys: Output) -> None:
    issuer = "https://token.actions.githubusercontent.com"
    body = {"issuer": issuer, "claims": {"repository_id": "1"}, "scopes": ["edges:write"], "owner_id": admin.user}
    credential_ids = [admin.create(PATH, body)["id"] for _ in range(3)]
    tables.remember()
    assert admin.delete(f"{PATH}/{credential_ids[0]}").status == 204
    assert admin.patch(f"{PATH}/{credential_ids[1]}", {"enabled": False}).status == 200
    tables.restore()
    lines = run_without_errors(capsys, "revocations", "list", restored.LATER)
    assert sorted(line.split()[1] for line in lines) == sorted(credential_ids[:2])


def test_a_later_table_without_an_account_is_refused(admin: Client, tables: Tables, tmp_path: Path) -> None:
    tables.restore()
    tables.swap()
    with pytest.raises(CommandError, match=f"it lacks the account {admin.account}"):
        [*Comparison(restored.LATER, tmp_path, lambda _: None).run()]
