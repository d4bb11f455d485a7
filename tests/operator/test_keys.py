"""API keys that the operator issues: their limits, and what is refused."""

from datetime import timedelta

from chalicelib import clock, ids
from tests.operator.commands import Output, bearer, created, everything_stored, refused, said
from tests.transports import InProcess


def test_an_issued_token_is_not_stored(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    _, token = said(capsys, "keys", "issue", account, admin)
    assert token.removeprefix("token ")[31:] not in everything_stored()


def test_a_key_that_the_operator_makes_has_the_end_and_the_scopes_that_are_asked_for(
    transport: InProcess, capsys: Output
) -> None:
    limits = ("--expires-in", "90d", "--scope", "users:read", "--scope", "api_keys:write")
    account, admin, token = created(capsys, ids.new("acme"), *limits)
    for made in (token, said(capsys, "keys", "issue", account, admin, *limits)[1].removeprefix("token ")):
        key = bearer(transport, made).get("/api_keys/self").json
        assert key["scopes"] == ["users:read", "api_keys:write"]
        lives = clock.parse(key["expires_at"]) - clock.parse(key["created_at"])
        assert abs(lives - timedelta(days=90)) <= timedelta(seconds=5)
        assert bearer(transport, made).get("/users").status == 200
        assert bearer(transport, made).get("/tunnels").status == 403


def test_limits_that_no_key_can_have_are_refused(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
    rule = f"must be {forms}, for example edges:read; the rights are read, write, create and revoke"
    assert refused("keys", "issue", account, admin, "--scope", "all") == f"The scopes.0 {rule}."
    for time in ("", "0", "-1d", "soon", "1y", "9999999w"):
        assert refused("keys", "issue", account, admin, f"--expires-in={time}") == 2
        assert f"argument --expires-in: {time!r} is not a duration: write one like 90d\n" in capsys.readouterr().err


def test_an_unknown_owner_of_a_key_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    other, _, _ = created(capsys)
    for where, owner in ((account, ids.new("usr")), (account, "nonsense"), (account, account), (other, admin)):
        assert refused("keys", "issue", where, owner) == f"The account {where} has no user or bot {owner}."


def test_a_description_that_is_too_long_is_one_sentence(capsys: Output) -> None:
    account, admin, _ = created(capsys)
    sentence = refused("keys", "issue", account, admin, "--description", "é" * 128)
    assert sentence == "The description must be at most 255 bytes of UTF-8."
