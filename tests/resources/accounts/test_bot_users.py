"""Bots by their own rules: unique names, for admins only, and keys that work while their bot is active."""

import json
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import __main__ as entrance
from chalicelib import ids
from chalicelib.crypto import public_keys
from chalicelib.model.accounts import accounts
from chalicelib.model.ssh.credentials import find_by_fingerprint
from chalicelib.operator import command_line, owners
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey
from tests import records
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.samples import public_key
from tests.transports import Answer, Client

PATH = "/bot_users"
NO_ADMIN = "Only an admin may see and change bots."
NO_BOT = "The bot that owns the API key is inactive or was deleted."
NAME = "must not be empty or contain control characters"
NEW_NAME = "must not be empty, begin with =, +, - or @, or contain control or formatting characters"


def uri(bot: Any) -> str:
    return f"{PATH}/{bot['id']}"


def client_of(client: Client, bot: Any) -> Client:
    """Return the bot, with a key that the client issues to it."""
    return client.with_token(client.create("/api_keys", {"owner_id": bot["id"]})["token"])


def create_operator_bot(client: Client, name: str, *, admin: bool = False) -> Any:
    """Return a bot that the operator made, as the API shows it."""
    return client.get(f"{PATH}/{owners.add_owner(client.account, 'bot', name, admin=admin).id}").json


def assert_taken(answer: Answer) -> None:
    assert_refused(
        answer, 409, "conflict", "'name' is in use already.", {"name": "must be a value that no other resource uses"}
    )


@pytest.mark.parametrize("name", ["a\u202eb", "a\u2028", "\u200ba", "=cmd|' /C calc'!A0", "+1", "-1", "@ci", "\ufeffa"])
def test_a_new_name_neither_hides_text_nor_begins_a_formula(admin: Client, name: str) -> None:
    bot = admin.create(PATH, {"name": "a-b_c+d=e@f é"})
    assert_invalid(admin.post(PATH, {"name": name}), {"name": NEW_NAME})
    assert_invalid(admin.patch(uri(bot), {"name": name}), {"name": NEW_NAME})
    assert admin.get(uri(bot)).json == bot


def test_a_bot_keeps_a_name_that_would_be_rejected_today(admin: Client) -> None:
    bot = admin.create(PATH, {"name": "new"})
    old = {"name": "=old\u202e"}
    records.rewrite(items.scope(admin.account, PATH), bot["id"], lambda item: replace(item, body={**item.body, **old}))
    assert admin.get(uri(bot)).json == {**bot, **old}
    assert admin.patch(uri(bot), {**old, "description": "x"}).json == {**bot, **old, "description": "x"}


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_name_is_one_line(admin: Client, name: str) -> None:
    assert_invalid(admin.post(PATH, {"name": name}), {"name": NEW_NAME})
    assert_invalid(admin.patch(uri(admin.create(PATH, {"name": "deploy"})), {"name": name}), {"name": NAME})


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"name": "é" * 128}, "must be at most 255 bytes of UTF-8"),
        ({"name": 7}, "must be a string"),
        *(({"active": active}, "must be true or false") for active in (0, 1, "true", "", ["x"])),
    ],
)
def test_a_bot_has_a_short_name_and_is_active_or_not(admin: Client, fields: dict[str, Any], rule: str) -> None:
    assert_invalid(admin.post(PATH, {"name": "other", **fields}), dict.fromkeys(fields, rule))
    assert_invalid(admin.patch(uri(admin.create(PATH, {"name": "deploy"})), fields), dict.fromkeys(fields, rule))


# A name is unique in the account.


def test_a_name_is_unique_in_its_account(admin: Client, stranger: Client) -> None:
    first = admin.create(PATH, {"name": "deploy"})
    assert_taken(admin.post(PATH, {"name": "deploy"}))
    assert admin.create(PATH, {"name": "Deploy"})["name"] == "Deploy"
    assert stranger.create(PATH, {"name": "deploy"})["name"] == "deploy"
    assert [bot["name"] for bot in admin.all(PATH, "bot_users")] == ["Deploy", first["name"]]


def test_users_and_bots_share_their_names(admin: Client) -> None:
    """Of a policy's {user}, both could sign as the one."""
    bot = admin.create(PATH, {"name": "deploy"})
    owners.add_owner(admin.account, "usr", "ada", admin=False)
    assert_taken(admin.post(PATH, {"name": "ada"}))
    assert_taken(admin.patch(uri(bot), {"name": "ada"}))
    for prefix, name in (("usr", "deploy"), ("bot", "ada"), ("usr", "ada")):
        with pytest.raises(command_line.CommandError, match="already has a user or bot with this name"):
            owners.add_owner(admin.account, prefix, name, admin=False)
    assert admin.delete(uri(bot)).status == 204
    user = owners.add_owner(admin.account, "usr", "deploy", admin=False)
    owners.delete_user(admin.account, user.id)
    assert admin.create(PATH, {"name": "deploy"})["name"] == "deploy"


def test_names_that_clash_since_2_0_0_are_told(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    user, bot = (as_of_earlier(admin, prefix, kind, "ada") for prefix, kind in (("usr", "user_name"), ("bot", "name")))
    entrance.main(["accounts", "clashes"])
    assert capsys.readouterr().out == f'{admin.account} "ada" {user} {bot}\n'
    entrance.main(["accounts", "clashes", "--json"])
    assert json.loads(capsys.readouterr().out) == {"account": admin.account, "name": "ada", "owners": [user, bot]}
    assert_taken(admin.post(PATH, {"name": "ada"}))
    assert admin.patch(f"{PATH}/{bot}", {"name": "ada", "description": "the same"}).status == 200
    assert admin.patch(f"{PATH}/{bot}", {"name": "lovelace"}).status == 200
    entrance.main(["accounts", "clashes"])
    assert capsys.readouterr().out == ""
    assert_taken(admin.patch(f"{PATH}/{bot}", {"name": "ada"}))
    owners.delete_user(admin.account, user)
    assert admin.patch(f"{PATH}/{bot}", {"name": "ada"}).status == 200


def as_of_earlier(client: Client, prefix: str, key: str, name: str) -> str:
    """Return the id of a user or bot that holds its name among its own kind alone."""
    scope, id = items.scope(client.account, accounts.OWNERS[prefix].path), ids.new(prefix)
    body = {"created_at": "2026-01-01T00:00:00Z", "description": "", "metadata": "", "name": name, "active": True}
    records.create(Item(scope, id, {**body, "admin": False}, unique_keys=(UniqueKey(key, f"{scope}#{name}"),)))
    return id


def test_a_renamed_bot_takes_the_new_name_and_releases_the_old(admin: Client) -> None:
    first = admin.create(PATH, {"name": "deploy", "description": "d"})
    renamed = admin.patch(uri(first), {"name": "release", "metadata": "m"}).json
    assert renamed == {**first, "name": "release", "metadata": "m"}
    assert admin.get(uri(first)).json == renamed
    assert_taken(admin.post(PATH, {"name": "release"}))
    assert admin.create(PATH, {"name": "deploy"})["name"] == "deploy"
    assert admin.delete(uri(first)).status == 204
    assert admin.create(PATH, {"name": "release"})["name"] == "release"


def test_a_bot_may_be_renamed_to_the_name_it_has(admin: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    assert admin.patch(uri(new_bot), {"name": "deploy", "active": False}).json == {**new_bot, "active": False}
    assert_taken(admin.post(PATH, {"name": "deploy"}))


def test_a_change_to_a_name_that_is_taken_changes_nothing(admin: Client) -> None:
    first, second = (admin.create(PATH, {"name": name}) for name in ("deploy", "release"))
    assert_taken(admin.patch(uri(second), {"name": "deploy", "active": False, "description": "new"}))
    assert [admin.get(uri(bot)).json for bot in (first, second)] == [first, second]


def test_renaming_what_is_not_there_is_not_found(admin: Client, stranger: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    assert_not_found(stranger.patch(uri(new_bot), {"name": "mine"}), PATH)
    assert_not_found(admin.patch(f"{PATH}/{ids.new('bot')}", {"name": "x"}), PATH)
    assert_not_found(admin.patch(f"{PATH}/x", {"name": "x"}), PATH)
    assert admin.get(uri(new_bot)).json == new_bot
    assert stranger.create(PATH, {"name": "mine"})["name"] == "mine"


# Bots are for admins, and whether one is an admin is for the operator.


def test_only_admins_see_or_change_bots(admin: Client, member: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    bot = client_of(admin, new_bot)
    for client in (member, bot):
        for address in (uri(new_bot), f"{PATH}/{ids.new('bot')}", f"{PATH}/x"):
            for method in ("GET", "PATCH", "DELETE"):
                assert_refused(client.send(method, address), 403, "forbidden", NO_ADMIN)
            assert_refused(client.patch(address, {"name": "mine"}), 403, "forbidden", NO_ADMIN)
        assert_refused(client.get(PATH), 403, "forbidden", NO_ADMIN)
        assert_refused(client.post(PATH, {"name": "mine"}), 403, "forbidden", NO_ADMIN)
        assert_refused(client.post(PATH, {"name": "deploy"}), 403, "forbidden", NO_ADMIN)
    assert list(admin.all(PATH, "bot_users")) == [new_bot]


def test_the_fields_come_before_the_permission(admin: Client, member: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    assert_invalid(member.post(PATH, {"name": ""}), {"name": NEW_NAME})
    assert_invalid(member.patch(uri(new_bot), {"active": 1}), {"active": "must be true or false"})
    assert_invalid(member.get(f"{PATH}?limit=0"), {"limit": "must be a whole number from 1 to 100"})


def test_nobody_can_make_an_admin_of_a_bot_over_http(admin: Client) -> None:
    rule = "is not accepted here; accepted: description, metadata, name, active"
    assert_invalid(admin.post(PATH, {"name": "deploy", "admin": True}), {"admin": rule})
    new_bot = admin.create(PATH, {"name": "deploy"})
    assert_invalid(admin.patch(uri(new_bot), {"admin": True}), {"admin": rule})
    answer = client_of(admin, new_bot).post("/api_keys", {"owner_id": admin.user})
    details = {"owner_id": "must be absent or your own id"}
    assert_refused(answer, 403, "forbidden", "Only an admin may set another owner_id.", details)


def test_a_bot_that_the_operator_made_an_admin_stays_one_and_is_not_shown_as_one(admin: Client) -> None:
    operator_bot = create_operator_bot(admin, "ops", admin=True)
    assert "admin" not in operator_bot
    bot = client_of(admin, operator_bot)
    assert admin.patch(uri(operator_bot), {"name": "chief", "description": "d"}).status == 200
    assert bot.get(uri(operator_bot)).json == {**operator_bot, "name": "chief", "description": "d"}
    assert client_of(bot, operator_bot).create(PATH, {"name": "other"})["name"] == "other"


def test_the_operator_makes_bots_in_the_same_names(admin: Client) -> None:
    operator_bot = create_operator_bot(admin, "ops")
    assert operator_bot["active"] is True
    assert_taken(admin.post(PATH, {"name": "ops"}))
    with pytest.raises(SystemExit, match=f"^The account {admin.account} already has a user or bot with this name.$"):
        entrance.main(["bots", "add", admin.account, "ops"])
    assert admin.patch(uri(operator_bot), {"name": "deploy"}).json == {**operator_bot, "name": "deploy"}
    assert create_operator_bot(admin, "ops")["name"] == "ops"


def test_the_operator_sees_the_bots_that_admins_made(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    new_bot, operator_bot = admin.create(PATH, {"name": "deploy"}), create_operator_bot(admin, "ops", admin=True)
    entrance.main(["accounts", "list"])
    output = capsys.readouterr().out
    assert f"  {new_bot['id']} deploy\n  {operator_bot['id']} ops (admin)\n" in output


# The keys of a bot work while it is active.


def test_the_keys_of_a_bot_stop_working_while_it_is_inactive(admin: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    bot = client_of(admin, new_bot)
    assert bot.get("/tunnels").status == 200
    for active, status in ((False, 401), (True, 200), (False, 401)):
        assert admin.patch(uri(new_bot), {"active": active}).json["active"] is active
        assert bot.get("/tunnels").status == status
    answer = bot.get("/tunnels")
    assert_refused(answer, 401, "unauthenticated", NO_BOT)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_keys_of_a_deleted_bot_never_work_again(admin: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy"})
    bot = client_of(admin, new_bot)
    assert admin.delete(uri(new_bot)).status == 204
    assert_refused(bot.get("/tunnels"), 401, "unauthenticated", NO_BOT)
    assert admin.create(PATH, {"name": "deploy"})["id"] != new_bot["id"]
    assert_refused(bot.get("/tunnels"), 401, "unauthenticated", NO_BOT)


def test_a_key_may_be_issued_to_an_inactive_bot_and_works_once_it_is_active(admin: Client) -> None:
    new_bot = admin.create(PATH, {"name": "deploy", "active": False})
    bot = client_of(admin, new_bot)
    assert_refused(bot.get("/tunnels"), 401, "unauthenticated", NO_BOT)
    admin.patch(uri(new_bot), {"active": True})
    assert bot.get("/tunnels").status == 200


def test_a_gateway_finds_the_ssh_credentials_of_a_bot_only_while_it_is_active(admin: Client) -> None:
    new_bot, key = admin.create(PATH, {"name": "deploy", "active": False}), public_key()
    admin.create("/ssh_credentials", {"public_key": key, "owner_id": new_bot["id"]})
    assert find_by_fingerprint(public_keys.fingerprint(key)) is None
    for active in (True, False, True):
        admin.patch(uri(new_bot), {"active": active})
        assert bool(find_by_fingerprint(public_keys.fingerprint(key))) is active
    admin.delete(uri(new_bot))
    assert find_by_fingerprint(public_keys.fingerprint(key)) is None
