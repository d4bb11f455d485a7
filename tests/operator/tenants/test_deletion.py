"""`accounts delete`: nothing is left of an account, and no other account is touched."""

import sys
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest

from chalicelib import clock, ids
from chalicelib.model.base import kinds
from chalicelib.model.tenants import portable, record_classes
from chalicelib.operator.command_line import UnknownId
from chalicelib.operator.tenants import deletion
from chalicelib.operator.tenants.deletion import Deletion
from tests.operator.commands import Output, expect_failure, run_without_errors
from tests.operator.tenants import busy, killing, worlds
from tests.transports import Client


def delete(account: str, events: Any = "delete") -> Deletion:
    deletion = Deletion(account, events, lambda _: None, sleep=lambda _: None)
    deletion.run()
    return deletion


def of_others(*accounts: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records that contain no id of these accounts, without the log of changes."""
    records = {
        (record["scope"], record["id"]): record
        for record in worlds.scan()
        if not any(account in repr(record) for account in accounts)
    }
    return {key: record for key, record in records.items() if not key[0].startswith("changes#")}


def test_only_lists_and_cooldowns_without_the_accounts_id_are_left(admin: Client, stranger: Client) -> None:
    before = of_others(admin.account)
    id_by_path = worlds.fill(admin)
    certificate = admin.get(f"/ssh_user_certificates/{id_by_path['/ssh_user_certificates']}").json
    authority = certificate["ssh_certificate_authority_id"]
    assert delete(admin.account).unrevoked == []
    assert worlds.find_naming(admin.account) == []
    remaining_records = {key: record for key, record in of_others(admin.account).items() if key not in before}
    classes = {record_classes.classify(*key).name for key in remaining_records}
    classes.discard("state of the service")  # the settings, which the first process stores
    assert classes == {"list of revocations", "chunk of revocations", "name", "operator's event"}
    assert remaining_records[f"krl#{authority}", "head"]["body"]["account"] == portable.digest(admin.account)
    assert remaining_records[f"krl#{authority}", "head"]["count"] == 1
    (name,) = (
        record for key, record in remaining_records.items() if key == (f"tunnel_name#{id_by_path['name']}", "claim")
    )
    assert name["account"] == portable.digest(admin.account)
    assert name["rests"] > clock.seconds()
    assert admin.get("/api_keys").status == 401
    krl = admin.with_token("").get(f"/ssh_certificate_authorities/{authority}/krl")
    assert krl.status == 200
    answer = stranger.post("/reserved_domains", {"domain": id_by_path["name"]})
    assert answer.status == 409
    assert stranger.get("/api_keys").status == 200
    assert {key: record for key, record in of_others(admin.account).items() if key in before} == before


def test_audit_events_can_be_kept(admin: Client) -> None:
    worlds.fill(admin)
    delete(admin.account, "keep")
    classes = {record_classes.classify(*key).name for key in worlds.find_naming(admin.account)}
    trail = {record_class.name for record_class in record_classes.CLASSES if record_class.removal == "trail"}
    assert {"audit_event", "operator's event"} <= classes <= trail


def test_a_deletion_that_is_killed_ten_times_under_load_leaves_nothing(admin: Client, stranger: Client) -> None:
    worlds.fill(admin)
    with busy.clients(stranger) as statuses, suppress(UnknownId):  # a killed run had deleted all
        killing.complete(lambda: delete(admin.account), seed=2, limit=120)
    assert worlds.find_naming(admin.account) == []
    assert {*statuses} == {200, 201, 204}


def test_each_kind_has_its_turn() -> None:
    parts = {kinds.AUDIT_EVENTS, kinds.SSH_REVOCATIONS, kinds.HTTPS_EDGE_ROUTES}  # deleted with the others
    assert {*deletion.ORDER} | parts == record_classes.PORTABILITY.keys()


def test_the_id_must_be_confirmed(admin: Client, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    command = ("accounts", "delete", admin.account, "--events", "keep")
    assert expect_failure(*command) == "There is no terminal to confirm the deletion: add --yes."
    monkeypatch.setattr(sys, "stdin", Terminal("acct_other\n"))
    assert expect_failure(*command) == "This is not the id of the account: nothing was deleted."
    assert admin.get("/api_keys").status == 200
    capsys.readouterr()


def test_an_unknown_account_is_refused(capsys: Output) -> None:
    id = ids.new("acct")
    assert expect_failure("accounts", "delete", "acme", "--events", "keep", "--yes") == "There is no account acme."
    with pytest.raises(UnknownId):
        delete(id)
    assert run_without_errors(capsys, "accounts", "list") == []
