"""What a malformed record decides is denied: keys, ACLs, accounts, policies, bans, blocks and revocations."""

from typing import Any

import pytest

from chalicelib.model.accounts import accounts
from chalicelib.model.names import bans
from chalicelib.model.ssh import credentials
from chalicelib.model.tunnels import blocks, name_bans
from chalicelib.operator import owners
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.records.decoding import MalformedRecord
from tests.records import WRONG, put, stored
from tests.samples import public_key
from tests.transports import Client, key_in


def records(prefix: str) -> list[dict[str, Any]]:
    found = aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"]
    return [dynamodb.plain(record) for record in found if record["scope"]["S"].startswith(prefix)]


def wrong_for(value: Any) -> list[Any]:
    return [wrong for wrong in WRONG if wrong.__class__ is not value.__class__]


def test_a_malformed_key_authenticates_nobody(admin: Client) -> None:
    key = admin.create("/api_keys", {"scopes": ["backends:read"]})
    bound = admin.with_token(key["token"])
    (claim,) = records(f"token#{key_in(key['token']).removeprefix('ak_')}")
    for name in ("digest", "account", "owner_id", "admin", "scopes", "expires_at"):
        for wrong in wrong_for(claim["body"][name]):
            if name == "expires_at" and wrong == 7:
                continue
            put({**claim, "body": {**claim["body"], name: wrong}})
            assert bound.get("/backends/weighted").status == 401, (name, wrong)
    put({**claim, "body": {**claim["body"], "active": "true"}})
    assert bound.get("/backends/weighted").status == 401
    put(claim)
    assert bound.get("/backends/weighted").status == 200


def test_a_malformed_acl_lets_nobody_in(admin: Client) -> None:
    made = admin.create("/ssh_credentials", {"public_key": public_key(), "acl": ["bind:a.example.com"]})
    (claim,) = [it for it in records("public_key#") if it["body"]["id"] == made["id"]]
    fingerprint = claim["scope"].partition("#")[2]
    assert credentials.find_by_fingerprint(fingerprint)
    forms: list[Any] = [{}, "", None, "bind:a.example.com", {"a": 1}, [1]]
    for wrong in forms:
        put({**claim, "body": {**claim["body"], "acl": wrong}})
        assert credentials.find_by_fingerprint(fingerprint) is None, wrong
        record = stored(made["id"])
        put({**record, "body": {**record["body"], "acl": wrong}})
        assert credentials.read(admin.account, made["id"]) is None, wrong


def test_a_malformed_account_or_owner_is_not_on_and_has_reserved_names_only(admin: Client) -> None:
    record = stored(admin.account)
    bodies: list[Any] = [[], "text", {**record["body"], "active": "yes"}, {**record["body"], "only_reserved": None}]
    for body in bodies:
        put({**record, "body": body})
        assert accounts.requires_reserved_names(admin.account)
        assert accounts.find_limited_to_reserved([admin.account]) == {admin.account}
    put({**record, "body": {**record["body"], "active": "yes"}})
    assert not accounts.is_account_active(admin.account)


def test_a_malformed_policy_signs_nothing(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    policy = {"user": {"allowed_principals": ["deploy"]}}
    assert admin.put(f"/ssh_certificate_authorities/{authority}/policy", policy).status == 200
    record = stored(authority)
    asked = {"ssh_certificate_authority_id": authority, "public_key": public_key(), "principals": ["root"]}
    assert admin.post("/ssh_user_certificates", asked).status == 400
    user = record["parts"]["policy"]["user"]
    patterns = {"user": {**user, "allowed_principals": "deploy"}}
    forms: list[Any] = [None, [], "text", {"user": []}, patterns, {"enabled": 0}]
    for wrong in forms:
        put({**record, "parts": {"policy": wrong}})
        assert admin.post("/ssh_user_certificates", asked).status == 500, wrong


def test_lists_of_the_operator_are_read_whole_or_not_at_all() -> None:
    blocks.block("192.0.2.0/24")
    blocks.block("198.51.100.0/24")
    bans.ban("*bank*")
    for scope in ("edge#/blocked_networks", "edge#/banned_patterns"):
        record = records(scope)[0]
        put({**record, "body": []})
    with pytest.raises(MalformedRecord):
        blocks.list_networks()
    with pytest.raises(MalformedRecord):
        bans.patterns()


def test_a_malformed_ban_still_bans(admin: Client) -> None:
    name_bans.ban_name("a.tunnels.localhost")
    (record,) = records("edge#/banned_names")
    put({**record, "body": "text"})
    assert name_bans.is_banned("a.tunnels.localhost")
    assert name_bans.banned_names() == ["a.tunnels.localhost"]


def test_a_list_of_revocations_is_whole_or_an_error(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}"
    for serial in ("7", "8"):
        admin.create(f"{path}/revocations", {"serial": serial})
    assert admin.get(f"{path}/krl").status == 200
    for record in records(f"krl#{authority}"):
        name = "count" if record["id"] == "head" else "packed"
        forms: list[Any] = ["text", [], None, b"\0\0\0\7cut off"]
        for wrong in forms:
            put({**record, name: wrong})
            assert admin.get(f"{path}/krl").status == 500, (name, wrong)
        put(record)
    assert admin.get(f"{path}/krl").status == 200


def test_a_malformed_revocation_leaves_the_list_as_it_is(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}"
    made = admin.create(f"{path}/revocations", {"serial": "7"})
    before = admin.get(f"{path}/krl").text
    record = stored(made["id"])
    put({**record, "body": {**record["body"], "serial": 7}})
    assert admin.delete(f"{path}/revocations/{made['id']}").status == 204
    assert admin.get(f"{path}/krl").text == before


def test_switching_an_owner_off_reaches_its_malformed_keys_and_no_others(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    keys = [admin.create("/api_keys", {"owner_id": bot}) for _ in range(2)]
    record = stored(keys[0]["id"])
    bodies: list[Any] = [[], {**record["body"], "owner_id": 7}, {**record["body"], "metadata": 7}]
    for body in bodies:
        put({**record, "body": body})
        owners.switch_owner(admin.account, bot, "off")
        assert [admin.with_token(key["token"]).get("/me").status for key in keys] == [401, 401], body
        owners.switch_owner(admin.account, bot, "on")
        assert admin.with_token(keys[1]["token"]).get("/me").status == 200


def test_keys_of_a_deleted_malformed_bot_let_nobody_in(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    key = admin.create("/api_keys", {"owner_id": bot})
    record = dynamodb.get(f"{admin.account}#/bot_users", bot)
    assert record
    put({**record, "body": []})
    assert admin.delete(f"/bot_users/{bot}").status == 204
    assert admin.with_token(key["token"]).get("/me").status == 401
    assert admin.create("/bot_users", {"name": "deployer"})
