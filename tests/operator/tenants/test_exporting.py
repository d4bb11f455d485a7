"""`accounts export`: all records of an account, without secrets, also if it is interrupted."""

import json
import stat
from pathlib import Path
from typing import Any

from chalicelib.model.tenants import portable, record_classes
from chalicelib.operator.tenants import exporting
from tests.operator.commands import expect_failure, run
from tests.operator.tenants import busy, killing, worlds
from tests.transports import Client


def read_export(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records of an export by scope and id."""
    with file.open() as lines:
        _, entries = portable.read(lines)
        records = [dict(entry.record) for entry in entries]
    assert len({(str(record["scope"]), str(record["id"])) for record in records}) == len(records)
    return {(str(record["scope"]), str(record["id"])): record for record in records}


def portable_keys(account: str) -> set[tuple[str, str]]:
    """Return the keys of the records that an export of an account must have, by a scan."""
    authorities = {record["scope"] for record in worlds.scan() if record["id"] == "head" and account in repr(record)}
    return {
        key
        for record in worlds.scan()
        if record_classes.classify(*(key := (record["scope"], record["id"]))).portability != "omitted"
        and (account in repr(record) or record["scope"] in authorities)
        and not str(record.get("holder", "")).startswith("tn_")
    }


def test_an_export_has_all_records_and_no_secret(admin: Client, stranger: Client, tmp_path: Path) -> None:
    worlds.fill(admin)
    stranger.create("/backends/http_response", {})
    file = tmp_path / "acme.ndjson"
    printed = run("accounts", "export", admin.account, "--into", str(file))
    records = read_export(file)
    assert records.keys() == portable_keys(admin.account)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert printed == [f"{len(records)} records of {admin.account} are in {file}."]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert stranger.account not in file.read_text()
    assert worlds.ciphertexts(list(records.values())) == []
    assert not [key for key, record in records.items() if "digest" in record.get("body", {})]


def test_an_existing_file_and_another_accounts_progress_are_refused(
    admin: Client, stranger: Client, tmp_path: Path
) -> None:
    file = tmp_path / "acme.ndjson"
    file.write_text("")
    assert (
        expect_failure("accounts", "export", admin.account, "--into", str(file))
        == f"{file} exists: choose another file."
    )
    file.unlink()
    parts = tmp_path / "acme.ndjson.parts"
    parts.mkdir()
    plan = {"command": "accounts export", "table": "tunnel-edge", "account": stranger.account, "segments": 16}
    (parts / "plan.json").write_text(json.dumps(plan))
    message = str(expect_failure("accounts", "export", admin.account, "--into", str(file)))
    assert message.startswith(f"The folder {parts} has the progress of another run (")


def test_an_export_that_is_killed_ten_times_under_load_is_complete(
    admin: Client, stranger: Client, tmp_path: Path
) -> None:
    worlds.fill(admin)
    file, expected = tmp_path / "acme.ndjson", portable_keys(admin.account)
    with busy.clients(stranger) as statuses:
        killing.complete(lambda: export(admin.account, file), seed=1)
    assert read_export(file).keys() == expected
    assert {*statuses} == {200, 201, 204}


def export(account: str, file: Path) -> None:
    if not file.exists():
        exporting.export_account(account, file, lambda _: None)
