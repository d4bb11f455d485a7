"""API keys that have expired: their records disappear a day after their end, without an event."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.storage.client import aws
from tests.refusals import UNKNOWN_TOKEN, assert_not_found, assert_refused
from tests.transports import Client

KEYS, BOTS, DAY = "/api_keys", "/bot_users", 24 * 60 * 60


def record(scope: str, id: str) -> dict[str, Any]:
    key = {"scope": {"S": scope}, "id": {"S": id}}
    record: dict[str, Any] = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=key)["Item"]
    return record


def records(client: Client, key: str) -> list[dict[str, Any]]:
    """Return the records of a key: itself, its token, and its entry under its owner."""
    unique = ids.strip_prefix(key)
    under_owner = f"{client.account}#/audit_events/keys/{client.user}"
    return [record(f"{client.account}#{KEYS}", key), record(f"token#{unique}", "claim"), record(under_owner, unique)]


def expiries(client: Client, key: str) -> list[int | None]:
    return [int(record["expires"]["N"]) if "expires" in record else None for record in records(client, key)]


def in_an_hour() -> tuple[str, int]:
    end = clock.seconds() + 3600
    return clock.rfc3339(clock.at(end)), end


def test_all_records_of_a_key_with_an_end_expire(admin: Client) -> None:
    text, end = in_an_hour()
    new_key = admin.create(KEYS, {"expires_at": text})
    assert expiries(admin, new_key["id"]) == [end + DAY, end + DAY, end + 400 * DAY]
    assert admin.patch(f"{KEYS}/{new_key['id']}", {"description": "x"}).status == 200
    assert expiries(admin, new_key["id"]) == [end + DAY, end + DAY, end + 400 * DAY]
    endless = admin.create(KEYS, {})
    assert expiries(admin, endless["id"]) == [None, None, None]


def test_a_key_disappears_a_day_after_its_end_without_an_event(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    text, end = in_an_hour()
    new_key = admin.create(KEYS, {"expires_at": text})
    address, expected = f"{KEYS}/{new_key['id']}", {**new_key, "token": None}
    events = admin.get("/audit_events").json
    for now, status in ((end, 200), (end + DAY - 1, 200), (end + DAY, 404)):
        monkeypatch.setattr(clock, "seconds", lambda now=now: now)
        refusal = admin.with_token(new_key["token"]).get("/me")
        assert_refused(refusal, 401, "unauthenticated", UNKNOWN_TOKEN)
        assert admin.get(address).status == status
        assert (expected in admin.get(KEYS).json["keys"]) is (status == 200)
    for answer in (admin.get(address), admin.patch(address, {}), admin.delete(address)):
        assert_not_found(answer, KEYS)
    assert admin.get("/audit_events").json == events


def test_keys_of_before_get_an_expiry_by_migration(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    text, end = in_an_hour()
    new_key = admin.create(KEYS, {"expires_at": text})
    for old in records(admin, new_key["id"]):
        del old["expires"]
        aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=old)
    body = admin.get(f"{KEYS}/{new_key['id']}").json
    operator.main(["migrate", "--apply"])
    assert expiries(admin, new_key["id"]) == [end + DAY, end + DAY, end + 400 * DAY]
    assert admin.get(f"{KEYS}/{new_key['id']}").json == body
    assert admin.with_token(new_key["token"]).get("/me").status == 200
    capsys.readouterr()
    operator.main(["migrate"])
    assert "API keys that expire" not in capsys.readouterr().out


def test_an_expired_key_does_not_protect_its_bot(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    bot = admin.create(BOTS, {"name": "deployer"})["id"]
    key = admin.create(KEYS, {"owner_id": bot, "expires_at": in_an_hour()[0]})["id"]
    assert admin.delete(f"{BOTS}/{bot}").status == 409
    item_key = {"scope": {"S": f"{admin.account}#{KEYS}"}, "id": {"S": key}}
    aws.client("dynamodb").delete_item(TableName="tunnel-edge", Key=item_key)  # as DynamoDB does after the expiry
    other = admin.create(KEYS, {"owner_id": bot})["id"]
    assert admin.delete(f"{BOTS}/{bot}").status == 409
    assert admin.delete(f"{KEYS}/{other}").status == 204
    assert admin.delete(f"{BOTS}/{bot}").status == 204
