"""Bots, users and accounts that are switched off while others switch them on, or until something breaks."""

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from chalicelib import __main__ as entrance
from tests.refusals import assert_refused
from tests.storage.interrupting import before_transaction
from tests.transports import Client

BOTS, KEYS, LIST = "/bot_users", "/api_keys", "/backends/weighted"
NO_BOT = "The bot that owns the API key is inactive or was deleted."


def fail() -> None:
    raise EndpointConnectionError(endpoint_url="http://store")


@pytest.fixture
def bot(admin: Client) -> str:
    """Return the address of a bot."""
    return f"{BOTS}/{admin.create(BOTS, {'name': 'deploy'})['id']}"


def key_of(admin: Client, bot: str) -> Client:
    return admin.with_token(admin.create(KEYS, {"owner_id": bot.rpartition("/")[2]})["token"])


def events(admin: Client, bot: str) -> list[Any]:
    events = admin.get(f"/audit_events?resource_id={bot.rpartition('/')[2]}").json["audit_events"]
    return [event["changed"] for event in events if event["action"] == "bot_user.update"]


@pytest.mark.parametrize("first", [True, False])
def test_who_switches_last_is_not_overtaken_by_what_another_tells_the_keys(
    admin: Client, bot: str, first: bool
) -> None:
    key = key_of(admin, bot)
    admin.patch(bot, {"active": not first})
    with before_transaction(2, lambda: admin.patch(bot, {"active": not first})):  # the keys are told by the second
        assert admin.patch(bot, {"active": first}).status == 200
    assert admin.get(bot).json["active"] is not first
    assert key.get(LIST).status == (401 if first else 200)


def test_a_bot_is_shown_as_active_until_its_keys_know(admin: Client, bot: str) -> None:
    keys = [key_of(admin, bot) for _ in range(3)]
    tag = admin.get(bot).headers["etag"]
    with before_transaction(2, fail):
        assert admin.patch(bot, {"active": False}).status == 503
    assert [key.get(LIST).status for key in keys] == [200] * 3
    assert admin.get(bot).json["active"] is True
    assert [bot["active"] for bot in admin.get(BOTS).json["bot_users"]] == [True]
    assert admin.send("PATCH", bot, {"active": True}, If_Match=tag).status == 412
    off = admin.patch(bot, {"active": False})
    assert (off.status, off.json["active"]) == (200, False)
    for key in keys:
        assert_refused(key.get(LIST), 401, "unauthenticated", NO_BOT)
    read = admin.get(bot)
    assert (read.json, read.headers["etag"]) == (off.json, off.headers["etag"])
    assert events(admin, bot) == [["active"]]


def test_a_bot_that_is_switched_on_again_instead_is_so_for_all_its_keys(admin: Client, bot: str) -> None:
    keys = [key_of(admin, bot) for _ in range(2)]
    with before_transaction(2, fail):
        assert admin.patch(bot, {"active": False}).status == 503
    assert admin.patch(bot, {"active": True}).json["active"] is True
    assert [key.get(LIST).status for key in keys] == [200, 200]
    assert admin.patch(bot, {"description": "new"}).json["active"] is True


@pytest.mark.parametrize("words", [("accounts",), ("users", "usr")])
def test_the_operator_sees_that_an_account_or_user_is_not_off_yet(
    admin: Client, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    noun, *_ = words
    arguments = [admin.account] if noun == "accounts" else [admin.account, admin.user]

    def state() -> bool:
        capsys.readouterr()
        entrance.main([noun, "list", *arguments[:-1], "--json"])
        entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return next(bool(entry["active"]) for entry in entries if entry["id"] == arguments[-1])

    with before_transaction(2, fail), pytest.raises(SystemExit):
        entrance.main([noun, "disable", *arguments])
    assert (state(), admin.get(LIST).status) == (True, 200)
    entrance.main([noun, "disable", *arguments])
    assert (state(), admin.get(LIST).status) == (False, 401)
    if noun == "users":
        entrance.main([noun, "enable", *arguments])
        assert (state(), admin.get(LIST).status) == (True, 200)
