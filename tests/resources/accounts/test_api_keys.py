"""API keys (SPEC 2.2, 4.1, 5) by their own rules; what all kinds share is tested once for all of them."""

import hashlib
import json
import re
import string
import zlib
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.http.auth import Caller
from chalicelib.operator import owners
from chalicelib.resources.accounts import api_keys
from chalicelib.resources.accounts.api_keys import KeyCreate
from chalicelib.storage.client import aws
from tests.queries import calls
from tests.refusals import UNKNOWN_TOKEN, assert_invalid, assert_refused
from tests.transports import Client

PATH = "/api_keys"
OWNER = "must be the id of a user (usr_…) or bot (bot_…)"


def dump_table() -> str:
    """Return the whole table, as text, but audit events and what they are found by."""
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    records = [record for page in pages for record in page["Items"]]
    return json.dumps([record for record in records if "#/audit_events" not in record["scope"]["S"]], default=repr)


def test_a_key_is_shown_whole_and_its_token_only_once(admin: Client) -> None:
    new_key = admin.create(PATH, {"description": "a pipeline", "metadata": "{}"})
    response = {
        "id": new_key["id"],
        "uri": f"http://localhost{PATH}/{new_key['id']}",
        "created_at": new_key["created_at"],
        "created_by": f"ak_{admin.token[3:30]}",
        "description": "a pipeline",
        "metadata": "{}",
        "token": None,
        "owner_id": admin.user,
    }
    assert new_key == {**response, "token": new_key["token"]}
    assert admin.get(f"{PATH}/{new_key['id']}").json == response
    assert admin.get(PATH).json["keys"][0] == response
    assert admin.patch(f"{PATH}/{new_key['id']}", {"metadata": ""}).json == {**response, "metadata": ""}


def test_an_answer_with_a_token_is_not_to_be_stored(admin: Client) -> None:
    assert admin.post(PATH, {}).headers["cache-control"] == "no-store"
    assert "cache-control" not in admin.get("/ssh_credentials").headers


SCANNED = re.compile(r"\bte_[0-9A-Za-z]{27}_[0-9A-Za-z_-]{32}[0-9A-Za-z]{6}\b")  # as the conventions say


def checksum(text: str) -> str:
    """Return the CRC-32 of a text as six base62 digits."""
    digits, number = string.digits + string.ascii_uppercase + string.ascii_lowercase, zlib.crc32(text.encode())
    return "".join(digits[number // 62**exponent % 62] for exponent in range(5, -1, -1))


def test_a_token_has_the_id_a_long_secret_of_its_own_and_a_checksum(admin: Client) -> None:
    new_keys = [admin.create(PATH, {}) for _ in range(3)]
    tokens = [re.fullmatch(r"te_([0-9A-Za-z]{27})_([0-9A-Za-z_-]{32})[0-9A-Za-z]{6}", key["token"]) for key in new_keys]
    assert [key["token"][-6:] for key in new_keys] == [checksum(key["token"][:-6]) for key in new_keys]
    assert [SCANNED.findall(f"token={key['token']}\n") for key in new_keys] == [[key["token"]] for key in new_keys]
    assert [token and f"ak_{token[1]}" for token in tokens] == [key["id"] for key in new_keys]
    assert len({token[2] for token in tokens if token}) == 3  # 32 characters of 6 random bits each


def test_a_token_with_a_wrong_checksum_is_refused_without_a_read(admin: Client) -> None:
    token = admin.create(PATH, {})["token"]
    last = "0" if token[-1] != "0" else "1"
    middle = "A" if token[40] != "A" else "B"
    with calls() as operations:
        for wrong in (f"{token[:-1]}{last}", f"{token[:40]}{middle}{token[41:]}"):
            assert_refused(admin.with_token(wrong).get(PATH), 401, "unauthenticated", UNKNOWN_TOKEN)
    assert operations == []
    for wrong in (token[:-1], token[:30], f"{token}0", f"TE{token[2:]}"):
        assert admin.with_token(wrong).get(PATH).status == 401


def test_a_token_of_the_form_before_stays_valid(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "3")
    new_key = admin.create(PATH, {})
    assert re.fullmatch(r"[0-9A-Za-z]{27}_[0-9A-Za-z_-]{32}", new_key["token"])
    monkeypatch.delenv("RECORD_FORMAT")
    assert admin.with_token(new_key["token"]).get(f"{PATH}/self").json == {**new_key, "token": None}


def test_only_the_digest_of_a_token_is_stored(admin: Client) -> None:
    token = admin.create(PATH, {})["token"]
    table_text = dump_table()
    assert hashlib.sha256(token.encode()).hexdigest() in table_text
    assert token not in table_text
    assert token[31:] not in table_text


def test_a_token_is_in_no_representation_of_what_is_made(admin: Client) -> None:
    id = ids.new("ak")
    new = api_keys.make(Caller(admin.account, admin.user, admin=True), id, KeyCreate())
    token = new.once["token"]
    assert token[31:] not in repr(new)
    assert hashlib.sha256(token.encode()).hexdigest() not in repr(new)


def test_the_owner_is_the_caller_by_default_and_may_be_named(member: Client) -> None:
    for owner in ({}, {"owner_id": ""}, {"owner_id": None}, {"owner_id": member.user}):
        assert member.create(PATH, owner)["owner_id"] == member.user


def test_an_admin_may_name_another_user_or_bot_whose_rights_the_key_then_has(admin: Client, member: Client) -> None:
    bot = owners.add_owner(admin.account, "bot", "deployer", admin=False)
    for owner in (member.user, bot.id):
        key = admin.create(PATH, {"owner_id": owner})
        assert key["owner_id"] == owner
        bearer = admin.with_token(key["token"])
        assert bearer.create(PATH, {})["owner_id"] == owner
        assert bearer.post(PATH, {"owner_id": admin.user}).status == 403


def test_a_bot_that_is_an_admin_may_name_another_owner(admin: Client, member: Client) -> None:
    bot = owners.add_owner(admin.account, "bot", "deployer", admin=True)
    bearer = admin.with_token(admin.create(PATH, {"owner_id": bot.id})["token"])
    assert bearer.create(PATH, {})["owner_id"] == bot.id
    assert bearer.create(PATH, {"owner_id": member.user})["owner_id"] == member.user


def test_a_member_may_not_name_another_owner_whether_it_exists_or_not(admin: Client, member: Client) -> None:
    for owner in (admin.user, ids.new("usr"), ids.new("bot")):
        assert_refused(
            member.post(PATH, {"owner_id": owner}),
            403,
            "forbidden",
            "Only an admin may set another owner_id.",
            {"owner_id": "must be absent or your own id"},
        )
    assert len(admin.get(PATH).json["keys"]) == 2  # the first ones of the admin and the member


def test_an_owner_is_a_user_or_bot_of_the_account(admin: Client, stranger: Client) -> None:
    for owner in (stranger.user, ids.new("usr"), ids.new("bot")):
        assert_refused(
            admin.post(PATH, {"owner_id": owner}),
            400,
            "unknown_reference",
            "'owner_id' names no user or bot of this account.",
            {"owner_id": "must be the id of a user or bot of this account"},
        )
    assert len(admin.get(PATH).json["keys"]) == 1


@pytest.mark.parametrize(
    "owner", ["x", "usr_", "usr_x", f"ak_{'0' * 27}", f"acct_{'0' * 27}", "usr", f"USR_{'0' * 27}", 1, True, [], {}]
)
def test_an_owner_of_another_form_is_refused(member: Client, owner: Any) -> None:
    rule = OWNER if isinstance(owner, str) else "must be a string"
    assert_invalid(member.post(PATH, {"owner_id": owner}), {"owner_id": rule})


def test_nothing_of_a_deleted_key_is_left_but_its_events(admin: Client) -> None:
    admin.get(PATH)  # which notes that the admin's own key is in use
    before = dump_table()
    key = admin.create(PATH, {"description": "gone soon"})
    assert admin.delete(f"{PATH}/{key['id']}").status == 204
    assert dump_table() == before


def test_a_changed_key_still_lets_in(admin: Client) -> None:
    key = admin.create(PATH, {})
    bearer = admin.with_token(key["token"])
    assert bearer.patch(f"{PATH}/{key['id']}", {"description": "new"}).json["description"] == "new"
    assert bearer.get(f"{PATH}/{key['id']}").json == {**key, "description": "new", "token": None}
