"""Users and who calls: names and roles of ids, and who may be switched off by whom."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.accounts import accounts
from chalicelib.operator import owners
from chalicelib.operator.keys import issue_key
from tests import records
from tests.queries import calls
from tests.refusals import NO_TOKEN_OF_OURS, assert_invalid, assert_not_found, assert_refused
from tests.storage.interrupting import before_transaction
from tests.transports import Client

PATH, BOTS, KEYS = "/users", "/bot_users", "/api_keys"
LAST = "This is the account's last active admin. Only the operator can switch it off."
FOR_ADMINS = "Only an admin may switch users on and off."
NO_USER = "The user that owns the API key is inactive or was deleted."


def of(client: Client) -> str:
    """Return the address of the user whose client it is."""
    return f"{PATH}/{client.user}"


def second(admin: Client, kind: str = "usr") -> Client:
    """Return a client for another admin of the account."""
    owner = owners.add_owner(admin.account, kind, ids.new("name"), admin=True)
    return admin.with_token(issue_key(admin.account, owner.id, "")[1])


def me(client: Client) -> Any:
    answer = client.get("/me")
    assert answer.status == 200, answer.text
    return answer.json


def test_every_key_sees_who_the_users_of_its_account_are(admin: Client, member: Client) -> None:
    entry = {
        "id": admin.user,
        "uri": f"http://localhost{of(admin)}",
        "created_at": ids.time_of(admin.user),
        "name": "admin",
        "role": "admin",
        "active": True,
    }
    for client in (admin, member):
        assert client.get(of(admin)).json == entry
    other = {
        **entry,
        "id": member.user,
        "uri": f"http://localhost{of(member)}",
        "name": "member",
        "role": "member",
    }
    other["created_at"] = ids.time_of(member.user)
    assert member.get(PATH).json == {
        "users": [other, entry],
        "uri": f"http://localhost{PATH}",
        "next_page_uri": None,
    }


def test_an_admin_switches_a_user_off_and_on_with_all_their_keys(admin: Client, member: Client) -> None:
    before = admin.get(of(member))
    off = admin.send("PATCH", of(member), {"active": False}, If_Match=before.headers["etag"])
    assert (off.status, off.json) == (200, {**before.json, "active": False})
    assert_refused(member.get(KEYS), 401, "unauthenticated", NO_USER)
    (event,) = admin.get(f"/audit_events?resource_id={member.user}&action=user.update").json["audit_events"]
    assert (event["changed"], event["actor"]["owner_id"]) == (["active"], admin.user)
    assert event["resource_uri"] == f"http://localhost{of(member)}"
    assert admin.send("PATCH", of(member), {"active": True}, If_Match=before.headers["etag"]).status == 412
    for body in ({}, {"active": None}, {"active": False}):
        assert admin.patch(of(member), body).json == off.json
    assert admin.patch(of(member), {"active": True}).json == before.json
    assert member.get(KEYS).status == 200


def test_what_a_switch_takes(admin: Client, stranger: Client) -> None:
    assert_invalid(admin.patch(of(admin), {"active": "no"}), {"active": "must be true or false"})
    rule = "is not accepted here; accepted: active"
    assert_invalid(admin.patch(of(admin), {"name": "x", "role": "member"}), {"name": rule, "role": rule})
    assert_not_found(admin.patch(of(stranger), {"active": False}), PATH)
    assert stranger.get(KEYS).status == 200


def test_a_member_switches_nobody_themselves_included(admin: Client, member: Client) -> None:
    for client in (admin, member):
        assert_refused(member.patch(of(client), {"active": False}), 403, "forbidden", FOR_ADMINS)
    limited = admin.with_token(admin.create(KEYS, {"scopes": ["users:read", "bot_users:write"]})["token"])
    assert limited.get(PATH).status == 200
    lacks = "This API key lacks the scope users:write."
    assert_refused(limited.patch(of(member), {"active": False}), 403, "forbidden", lacks)


def test_only_the_operator_switches_off_the_last_active_admin(admin: Client, member: Client) -> None:
    assert_refused(admin.patch(of(admin), {"active": False}), 409, "conflict", LAST)
    other = second(admin)
    user_path = f"{PATH}/{me(other)['owner']['id']}"
    assert admin.patch(user_path, {"active": False}).status == 200
    assert_refused(admin.patch(of(admin), {"active": False}), 409, "conflict", LAST)
    assert (admin.get(of(admin)).json["active"], admin.get(KEYS).status) == (True, 200)
    assert admin.patch(user_path, {"active": True}).status == 200
    assert admin.patch(of(admin), {"active": False}).status == 200
    assert_refused(other.patch(user_path, {"active": False}), 409, "conflict", LAST)
    owners.switch_owner(admin.account, user_path.removeprefix(f"{PATH}/"), "off")
    assert other.get(KEYS).status == 401


def test_a_bot_that_is_the_last_active_admin_is_neither_switched_off_nor_deleted(admin: Client) -> None:
    bot = second(admin, "bot")
    address = f"{BOTS}/{me(bot)['owner']['id']}"
    assert bot.patch(of(admin), {"active": False}).status == 200
    assert_refused(bot.patch(address, {"active": False}), 409, "conflict", LAST)
    assert_refused(bot.delete(address), 409, "conflict", LAST)
    assert bot.get(address).json["active"] is True
    assert bot.patch(of(admin), {"active": True}).status == 200
    assert bot.delete(address).status == 204
    assert bot.get(KEYS).status == 401


def test_an_admin_who_is_switched_off_meanwhile_is_not_the_one_who_stays(admin: Client) -> None:
    other = second(admin)
    other_path = f"{PATH}/{me(other)['owner']['id']}"

    def overtake() -> None:
        assert admin.patch(of(admin), {"active": False}).status == 200

    with before_transaction(1, overtake):
        assert_refused(other.patch(other_path, {"active": False}), 409, "conflict", LAST)
    assert (admin.get(KEYS).status, other.get(KEYS).status) == (401, 200)


def test_a_user_whom_the_operator_switches_on_meanwhile_is_on(admin: Client, member: Client) -> None:
    def overtake() -> None:
        owners.switch_owner(admin.account, member.user, "on")

    with before_transaction(2, overtake):  # the keys are told by the second
        assert admin.patch(of(member), {"active": False}).status == 200
    assert (admin.get(of(member)).json["active"], member.get(KEYS).status) == (True, 200)


@pytest.mark.parametrize("scopes", [None, ["api_keys:read"]])
def test_every_key_is_told_who_it_is(admin: Client, scopes: list[str] | None) -> None:
    bot = admin.create(BOTS, {"name": "deployer"})
    key = admin.create(KEYS, {"owner_id": bot["id"], "scopes": scopes, "expires_at": scopes and "2098-01-01T00:00:00Z"})
    bearer = admin.with_token(key["token"])
    assert me(bearer) == {
        "account": admin.account,
        "owner": {"id": bot["id"], "name": "deployer", "role": "member"},
        "key": {
            "id": key["id"],
            "scopes": scopes or ["*"],
            "expires_at": scopes and "2098-01-01T00:00:00Z",
        },
        "names": {"held": 0, "cooldown": 0, "allowed": 1000},
        "limits": {"account": None, "key": None, "certificates": None, "events": None},
    }
    with calls() as operations:
        assert bearer.get("/me").status == 200
    assert operations == ["GetItem", "GetItem", "GetItem"]  # who calls, their name, and the count of names
    assert_refused(admin.with_token(f"{key['token'][:-1]}_").get("/me"), 401, "unauthenticated", NO_TOKEN_OF_OURS)


ONLY_ADMINS = "Only an admin may create and delete users."
LAST_ONE = "This is the account's last active admin. Only the operator can switch it off."


def test_an_admin_creates_a_member_and_deletes_it(admin: Client, member: Client) -> None:
    creation = admin.post(PATH, {"name": "zoe"})
    id = creation.json["id"]
    assert (creation.status, creation.json) == (
        201,
        {
            "id": id,
            "uri": f"http://localhost{PATH}/{id}",
            "created_at": ids.time_of(id),
            "name": "zoe",
            "role": "member",
            "active": True,
        },
    )
    assert admin.get(f"{PATH}/{id}").json == creation.json
    key = admin.create(KEYS, {"owner_id": id})
    zoe = admin.with_token(key["token"])
    assert me(zoe)["owner"] == {"id": id, "name": "zoe", "role": "member"}
    for client in (zoe, member):
        assert_refused(client.post(PATH, {"name": "x"}), 403, "forbidden", ONLY_ADMINS)
        assert_refused(client.delete(f"{PATH}/{id}"), 403, "forbidden", ONLY_ADMINS)
    owned = f"The user owns 1 API keys and SSH credentials, for example {key['id']}: delete them first."
    assert_refused(admin.delete(f"{PATH}/{id}"), 409, "conflict", owned)
    assert me(zoe)["owner"]["id"] == id
    assert admin.delete(f"{KEYS}/{key['id']}").status == 204
    assert admin.delete(f"{PATH}/{id}").status == 204
    assert_not_found(admin.delete(f"{PATH}/{id}"), PATH)
    assert_not_found(admin.get(f"{PATH}/{id}"), PATH)
    events = admin.get(f"/audit_events?resource_id={id}").json["audit_events"]
    assert [(event["action"], event["actor"]["owner_id"]) for event in events] == [
        ("user.delete", admin.user),
        ("user.create", admin.user),
    ]
    assert admin.post(PATH, {"name": "zoe"}).status == 201


def test_names_of_users_are_unique_and_checked(admin: Client) -> None:
    admin.create(BOTS, {"name": "robot"})
    for name in ("admin", "robot"):
        assert admin.post(PATH, {"name": name}).status == 409
    for body in ({}, {"name": ""}, {"name": "=1"}, {"name": "a\nb"}, {"name": "x" * 256}):
        assert list(admin.post(PATH, body).json["details"])[:1] == ["name"]
    assert_invalid(admin.post(PATH, {"name": "x", "role": "admin"}), {"role": "is not accepted here; accepted: name"})


def test_a_user_without_keys_is_deleted_unless_it_is_the_last_admin(admin: Client) -> None:
    bare = owners.add_owner(admin.account, "usr", "bare", admin=True).id
    assert admin.patch(f"{PATH}/{bare}", {"active": False}).status == 200
    assert admin.patch(f"{PATH}/{bare}", {"active": True}).status == 200
    limited = admin.create(KEYS, {"owner_id": admin.user, "scopes": ["users:read"]})
    refusal = admin.with_token(limited["token"]).delete(f"{PATH}/{bare}")
    assert_refused(refusal, 403, "forbidden", "This API key lacks the scope users:write.")
    assert admin.delete(f"{PATH}/{bare}").status == 204
    assert_refused(admin.patch(of(admin), {"active": False}), 409, "conflict", LAST_ONE)
    assert admin.delete(of(admin)).status == 409


def test_an_account_has_a_thousand_users(admin: Client) -> None:
    users = [accounts.new_user(admin.account, f"user {number}", admin=False) for number in range(999)]
    for start in range(0, 999, 27):
        records.create(*users[start : start + 27])
    full = "An account can have at most 1000 users: delete one first."
    assert_refused(admin.post(PATH, {"name": "zoe"}), 409, "conflict", full)
