"""The use of a key, and what it was denied."""

from typing import Any

from chalicelib import clock, ids
from chalicelib.http.auth import Caller
from chalicelib.model.accounts import key_usage
from chalicelib.storage.client import aws
from tests import gateway
from tests.queries import calls
from tests.transports import Client, key_in

PATH = "/api_keys"


def age(id: str, seconds: int) -> None:
    """Have what a key was denied be so many seconds old, as time would."""
    item_key = {"scope": {"S": f"token#{ids.strip_prefix(id)}"}, "id": {"S": "denied"}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]
    past = clock.seconds() - seconds
    record["denied"]["SS"] = [f"{past}.{number}" for number, _ in enumerate(record["denied"]["SS"])]
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)


def count_denied(admin: Client, key: str) -> Any:
    return admin.get(f"{PATH}/{key}/usage").json["denied_last_hour"]


def key(client: Client, **fields: Any) -> Client:
    """Return a caller with a fresh key of these fields."""
    return client.with_token(client.create(PATH, fields)["token"])


def test_the_use_of_a_key_is_noted_once_an_hour_and_makes_no_event(admin: Client) -> None:
    new_key = admin.create(PATH, {})
    usage = f"{PATH}/{new_key['id']}/usage"
    never = admin.get(usage)
    assert (never.json, never.headers["cache-control"]) == ({"last_used_at": None, "denied_last_hour": 0}, "no-store")
    events = len(admin.get("/audit_events").json["audit_events"])
    bearer = admin.with_token(new_key["token"])
    assert bearer.get(PATH).status == 200
    assert admin.get(usage).json["last_used_at"] is not None
    assert len(admin.get("/audit_events").json["audit_events"]) == events
    with calls() as operations:
        assert bearer.get(f"/backends/weighted/{ids.new('bkdwd')}").status == 404
    assert operations == ["GetItem", "GetItem"]  # who calls, and what for


def test_a_use_that_the_authorizers_cache_remembers_for_longer_than_an_hour_is_noted_once(admin: Client) -> None:
    id = admin.create(PATH, {})["id"]
    remembered = Caller(admin.account, admin.user, admin=True, key=id, used=clock.seconds() - 3601)
    client = Client(gateway.Gateway(remembered))
    with calls() as operations:
        for _ in range(20):
            assert client.get(f"{PATH}/{id}").status == 200
    assert operations.count("UpdateItem") == 1
    assert admin.get(f"{PATH}/{ids.new('ak')}/usage").status == 404


def test_a_request_that_is_refused_is_a_use_too(admin: Client) -> None:
    """Somebody has the key: whoever asks whether it can be deleted should know."""
    new_key = admin.create(PATH, {"scopes": ["tunnels:read"]})
    assert admin.with_token(new_key["token"]).get(PATH).status == 403
    assert admin.get(f"{PATH}/{new_key['id']}/usage").json["last_used_at"] is not None


def test_what_a_key_was_denied_in_the_last_hour_is_counted_whatever_denied_it(admin: Client, member: Client) -> None:
    limited = admin.create(PATH, {"scopes": ["api_keys:write"]})
    member_key = key_in(member.token)
    bearer = admin.with_token(limited["token"])
    assert [bearer.get(PATH).status, bearer.post(PATH, {"scopes": ["*"]}).status] == [403, 403]
    assert member.get("/bot_users").status == member.post(PATH, {"owner_id": admin.user}).status == 403
    assert member.patch(f"/users/{admin.user}", {"active": False}).status == 403
    assert [bearer.post(PATH, {"scopes": []}).status, member.get(PATH).status] == [400, 200]
    assert admin.with_token(f"{limited['token']}x").get(PATH).status == 401
    assert (count_denied(admin, limited["id"]), count_denied(admin, member_key)) == (2, 3)
    age(limited["id"], 3500)
    assert count_denied(admin, limited["id"]) == 2
    age(limited["id"], 3600)
    assert count_denied(admin, limited["id"]) == 0
    assert bearer.get(PATH).status == 403
    assert count_denied(admin, limited["id"]) == 1


def test_a_flood_of_denied_requests_writes_a_hundred_times_an_hour_at_most(admin: Client) -> None:
    key = admin.create(PATH, {"scopes": ["tunnels:read"]})
    bearer = admin.with_token(key["token"])
    with calls() as operations:
        assert {bearer.get(PATH).status for _ in range(key_usage.MAX_DENIED + 20)} == {403}
    assert operations.count("UpdateItem") == 1 + key_usage.MAX_DENIED + 1  # the use, and that there is no room
    assert count_denied(admin, key["id"]) == key_usage.MAX_DENIED
    with calls() as operations:
        assert bearer.get(PATH).status == 403
    assert operations == ["GetItem"]


def test_there_is_room_again_for_denied_requests_when_those_of_before_are_an_hour_old(admin: Client) -> None:
    key = admin.create(PATH, {"scopes": ["tunnels:read"]})
    bearer = admin.with_token(key["token"])
    for _ in range(key_usage.MAX_DENIED):
        bearer.get(PATH)
    age(key["id"], 3600)
    assert bearer.get(PATH).status == 403
    assert count_denied(admin, key["id"]) == 1
