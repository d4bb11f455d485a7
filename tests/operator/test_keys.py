"""API keys that the operator issues: their limits, and what is refused."""

from datetime import timedelta

from chalicelib import clock, ids
from tests.operator.commands import Output, bearer, create_account, dump_table, expect_failure, run_without_errors
from tests.transports import InProcess


def test_an_issued_token_is_not_stored(capsys: Output) -> None:
    account, admin, _ = create_account(capsys)
    _, token = run_without_errors(capsys, "keys", "issue", account, admin)
    assert token.removeprefix("token ")[31:] not in dump_table()


def test_a_key_that_the_operator_makes_has_the_end_and_the_scopes_that_are_asked_for(
    transport: InProcess, capsys: Output
) -> None:
    limits = ("--expires-in", "90d", "--scope", "users:read", "--scope", "api_keys:write")
    account, admin, token = create_account(capsys, ids.new("acme"), *limits)
    for key_token in (
        token,
        run_without_errors(capsys, "keys", "issue", account, admin, *limits)[1].removeprefix("token "),
    ):
        key = bearer(transport, key_token).get("/api_keys/self").json
        assert key["scopes"] == ["users:read", "api_keys:write"]
        lives = clock.parse(key["expires_at"]) - clock.parse(key["created_at"])
        assert abs(lives - timedelta(days=90)) <= timedelta(seconds=5)
        assert bearer(transport, key_token).get("/users").status == 200
        assert bearer(transport, key_token).get("/tunnels").status == 403


def test_limits_that_no_key_can_have_are_refused(capsys: Output) -> None:
    account, admin, _ = create_account(capsys)
    forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
    rule = f"must be {forms}, for example edges:read; the rights are read, write, create and revoke"
    assert expect_failure("keys", "issue", account, admin, "--scope", "all") == f"The scopes.0 {rule}."
    for time in ("", "0", "-1d", "soon", "1y", "9999999w"):
        assert expect_failure("keys", "issue", account, admin, f"--expires-in={time}") == 2
        assert f"argument --expires-in: {time!r} is not a duration: write one like 90d\n" in capsys.readouterr().err


def test_an_unknown_owner_of_a_key_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = create_account(capsys)
    other, _, _ = create_account(capsys)
    for account_id, owner in ((account, ids.new("usr")), (account, "nonsense"), (account, account), (other, admin)):
        assert (
            expect_failure("keys", "issue", account_id, owner)
            == f"The account {account_id} has no user or bot {owner}."
        )


def test_a_description_that_is_too_long_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = create_account(capsys)
    sentence = expect_failure("keys", "issue", account, admin, "--description", "é" * 128)
    assert sentence == "The description must be at most 255 bytes of UTF-8."
