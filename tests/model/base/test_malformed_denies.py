"""What a malformed record decides is denied: keys, ACLs, accounts, policies, bans, blocks and revocations."""

from typing import Any

from chalicelib.operator import owners
from chalicelib.storage.client import dynamodb
from tests.records import WRONG, put, read_record, with_scope
from tests.samples import public_key
from tests.transports import Client, key_in


def wrong_for(value: Any) -> list[Any]:
    return [wrong for wrong in WRONG if wrong.__class__ is not value.__class__]


def test_a_malformed_key_authenticates_nobody(admin: Client) -> None:
    key = admin.create("/api_keys", {"scopes": ["backends:read"]})
    bound = admin.with_token(key["token"])
    (claim,) = with_scope(f"token#{key_in(key['token']).removeprefix('ak_')}")
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


def test_a_malformed_policy_signs_nothing(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    policy = {"user": {"allowed_principals": ["deploy"]}}
    assert admin.put(f"/ssh_certificate_authorities/{authority}/policy", policy).status == 200
    record = read_record(authority)
    body = {"ssh_certificate_authority_id": authority, "public_key": public_key(), "principals": ["root"]}
    assert admin.post("/ssh_user_certificates", body).status == 400
    user = record["parts"]["policy"]["user"]
    patterns = {"user": {**user, "allowed_principals": "deploy"}}
    forms: list[Any] = [None, [], "text", {"user": []}, patterns, {"enabled": 0}]
    for wrong in forms:
        put({**record, "parts": {"policy": wrong}})
        assert admin.post("/ssh_user_certificates", body).status == 500, wrong


def test_switching_an_owner_off_reaches_its_malformed_keys_and_no_others(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    keys = [admin.create("/api_keys", {"owner_id": bot}) for _ in range(2)]
    record = read_record(keys[0]["id"])
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
