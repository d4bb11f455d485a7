"""Accounts that the operator creates, lists and limits."""

import json
import re

from chalicelib import ids
from tests.operator.commands import (
    TOKEN,
    Output,
    bearer,
    create_account,
    dump_table,
    expect_failure,
    run_without_errors,
)
from tests.transports import InProcess


def test_a_new_account_has_an_admin_whose_token_is_printed_once_and_lets_in(
    transport: InProcess, capsys: Output
) -> None:
    lines = run_without_errors(capsys, "accounts", "create", "acme", "--admin", "alice")
    form = re.fullmatch(rf"account (acct_\w{{27}})\nadmin (usr_\w{{27}})\ntoken ({TOKEN})", "\n".join(lines))
    assert form
    keys = bearer(transport, form[3]).get("/api_keys").json["keys"]
    assert [(key["owner_id"], key["description"]) for key in keys] == [(form[2], "The account's first key")]
    assert form[3] not in dump_table()


def test_accounts_are_listed_with_their_users_and_bots(capsys: Output) -> None:
    assert run_without_errors(capsys, "accounts", "list") == []
    acme, alice, _ = create_account(capsys, "acme", "--admin", "alice")
    other, admin, _ = create_account(capsys, "Ünï Corp")
    (bob,) = run_without_errors(capsys, "users", "add", acme, "bob")
    (robot,) = run_without_errors(capsys, "bots", "add", acme, "robot", "--admin")
    assert run_without_errors(capsys, "accounts", "list") == [
        f"{acme} acme",
        f"  {alice} alice (admin)",
        f"  {bob} bob",
        f"  {robot} robot (admin)",
        f"{other} Ünï Corp",
        f"  {admin} admin (admin)",
    ]


def test_an_account_is_limited_only_with_a_choice(capsys: Output) -> None:
    account, _, _ = create_account(capsys)
    assert expect_failure("accounts", "limits", account) == 2
    assert "set at least one limit, for example --requests-per-second N" in capsys.readouterr().err
    for option, limited in (("--only-reserved", True), ("--no-only-reserved", False)):
        assert run_without_errors(capsys, "accounts", "limits", account, option) == []
        assert json.loads(run_without_errors(capsys, "accounts", "list", "--json")[0])["only_reserved"] is limited


def test_an_unknown_account_is_one_sentence(capsys: Output) -> None:
    for id in (ids.new("acct"), "nonsense", ""):
        sentence = f"There is no account {id}."
        assert expect_failure("users", "add", id, "bob") == sentence
        assert expect_failure("bots", "add", id, "robot") == sentence
        assert expect_failure("tunnels", "demo", id) == sentence
    assert run_without_errors(capsys, "accounts", "list") == []
