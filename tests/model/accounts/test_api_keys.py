"""API keys with an end and a reach: what a key may do and nothing else, and when its owner may act no more."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest

from chalicelib import clock, ids, routes
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Endpoint
from chalicelib.model.accounts import key_usage, scopes
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.operator import accounts, owners
from chalicelib.operator.command_line import CommandError
from chalicelib.operator.keys import issue_key
from chalicelib.storage.client import aws
from tests import gateway
from tests.queries import calls
from tests.refusals import UNKNOWN_TOKEN, assert_invalid, assert_refused
from tests.transports import Client, key_in

PATH = "/api_keys"
BEYOND = "A key cannot create a key with more scopes or a later end than its own."
SCOPES = [scope for scope in scopes.list_scopes() if "*" not in scope]  # each of them one collection's
FAR, FARTHER = "2098-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
ENDPOINTS = sorted(  # the end of the key itself last
    (endpoint for served in routes.ALL for endpoint in served.endpoints() if endpoint.authorizer),
    key=lambda endpoint: (endpoint.method, endpoint.path) == ("DELETE", f"{PATH}/self"),
)


def key(client: Client, **fields: Any) -> Client:
    """Return a caller with a fresh key of these fields."""
    return client.with_token(client.create(PATH, fields)["token"])


def test_an_endpoint_lets_in_a_key_with_its_scope_and_none_with_all_others(admin: Client) -> None:
    bearer = cache(lambda *held: key(admin, scopes=held))

    def lacks(endpoint: Endpoint, *held: str) -> bool:
        path = endpoint.path.replace("{edge_id}", "x").replace("{id}", "x")
        answer = bearer(*held).send(endpoint.method, path, {} if endpoint.body else None)
        wanted = scopes.required(endpoint.method, endpoint.path)
        return answer.status == 403 and answer.json["msg"] == f"This API key lacks the scope {wanted}."

    for endpoint in ENDPOINTS:
        wanted = scopes.required(endpoint.method, endpoint.path)
        own = [scope for scope in SCOPES if wanted is None or scopes.covers([scope], wanted)]
        others = [scope for scope in SCOPES if scope not in own]
        assert not lacks(endpoint, own[0]), endpoint
        assert not others or lacks(endpoint, *others), endpoint


@pytest.mark.parametrize("held", [None, ["edges:read"]])
def test_every_key_sees_and_ends_itself(admin: Client, held: list[str] | None) -> None:
    created = admin.create(PATH, {"scopes": held})
    bearer = admin.with_token(created["token"])
    answer = bearer.get(f"{PATH}/self")
    assert (answer.status, answer.json) == (200, {**created, "token": None})
    assert answer.headers["etag"] == admin.get(f"{PATH}/{created['id']}").headers["etag"]
    assert bearer.send("DELETE", f"{PATH}/self", If_Match='"1-x"').status == 412
    ended = bearer.delete(f"{PATH}/self")
    assert (ended.status, ended.text) == (204, "")
    assert_refused(bearer.get(f"{PATH}/self"), 401, "unauthenticated", UNKNOWN_TOKEN)
    (event,) = admin.get(f"/audit_events?resource_id={created['id']}&action=api_key.delete").json["audit_events"]
    assert event["actor"]["key_id"] == created["id"]
    assert bearer.patch(f"{PATH}/self", {}).status == 405


@pytest.mark.parametrize("own", [["*:read", "api_keys:write"], ["api_keys:write", "edges:write"]])
def test_a_key_never_makes_one_with_more_reach(admin: Client, own: list[str]) -> None:
    bearer = key(admin, scopes=own)
    for scope in scopes.list_scopes():
        answer = bearer.post(PATH, {"scopes": [scope]})
        if KeyLimits(tuple(own)).covers(scope):
            assert answer.json["scopes"] == [scope]
        else:
            rule = f"must be within the scopes of your own key, {', '.join(own)}; {scope} is not"
            assert_refused(answer, 403, "forbidden", BEYOND, {"scopes": rule})
    assert bearer.create(PATH, {})["scopes"] == own


def test_a_key_never_makes_one_with_a_later_end(admin: Client) -> None:
    bearer = key(admin, expires_at=FAR)
    rule = {"expires_at": "must not be later than the end of your own key"}
    assert_refused(bearer.post(PATH, {"expires_at": FARTHER}), 403, "forbidden", BEYOND, rule)
    assert bearer.create(PATH, {})["expires_at"] == FAR
    assert bearer.create(PATH, {"expires_at": "2097-01-01T00:00:00Z"})["expires_at"] == "2097-01-01T00:00:00Z"


def test_a_key_without_end_and_scopes_looks_as_the_specification_has_it_but_for_its_maker(admin: Client) -> None:
    created = admin.create(PATH, {"expires_at": None, "scopes": None})
    assert created.keys() == {"id", "uri", "created_at", "created_by", "description", "metadata", "token", "owner_id"}


def test_ends_and_scopes_are_checked_and_cannot_be_changed(admin: Client) -> None:
    assert_invalid(admin.post(PATH, {"scopes": []}), {"scopes": "must not be empty"})
    forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
    rule = f"must be {forms}, for example edges:read; the rights are read, write, create and revoke"
    for scope in ("", "api_keys", "api_keys:delete", "nothing:read", "*:write"):
        assert_invalid(admin.post(PATH, {"scopes": [scope]}), {"scopes.0": rule})
    assert_invalid(admin.post(PATH, {"expires_at": "2020-01-01T00:00:00Z"}), {"expires_at": "must be in the future"})
    address = f"{PATH}/{admin.create(PATH, {})['id']}"
    unknown = "is not a field here; known: description, metadata"
    answer = admin.patch(address, {"scopes": ["*"], "expires_at": FAR})
    assert_invalid(answer, {"scopes": unknown, "expires_at": unknown})


def test_an_ended_key_is_refused_as_an_unknown_one_is(admin: Client) -> None:
    created = admin.create(PATH, {"expires_at": FAR})
    bearer = admin.with_token(created["token"])
    assert bearer.get(PATH).status == 200
    end(created["id"])
    assert_refused(bearer.get(PATH), 401, "unauthenticated", UNKNOWN_TOKEN)


def end(id: str) -> None:
    """Have a key's end be in the past, as time would."""
    aws.client("dynamodb").update_item(
        TableName="tunnel-edge",
        Key={"scope": {"S": f"token#{ids.unprefixed(id)}"}, "id": {"S": "claim"}},
        UpdateExpression="SET #body.expires_at = :past",
        ExpressionAttributeNames={"#body": "body"},
        ExpressionAttributeValues={":past": {"N": "1"}},
    )


def test_the_use_of_a_key_is_noted_once_an_hour_and_makes_no_event(admin: Client) -> None:
    created = admin.create(PATH, {})
    usage = f"{PATH}/{created['id']}/usage"
    never = admin.get(usage)
    assert (never.json, never.headers["cache-control"]) == ({"last_used_at": None, "denied_last_hour": 0}, "no-store")
    events = len(admin.get("/audit_events").json["audit_events"])
    bearer = admin.with_token(created["token"])
    assert bearer.get(PATH).status == 200
    assert admin.get(usage).json["last_used_at"] is not None
    assert len(admin.get("/audit_events").json["audit_events"]) == events
    with calls() as made:
        assert bearer.get(f"/backends/weighted/{ids.new('bkdwd')}").status == 404
    assert made == ["GetItem", "GetItem"]  # who calls, and what for


def test_a_use_that_the_authorizers_cache_remembers_for_longer_than_an_hour_is_noted_once(admin: Client) -> None:
    id = admin.create(PATH, {})["id"]
    remembered = Caller(admin.account, admin.user, admin=True, key=id, used=clock.seconds() - 3601)
    client = Client(gateway.Gateway(remembered))
    with calls() as made:
        for _ in range(20):
            assert client.get(f"{PATH}/{id}").status == 200
    assert made.count("UpdateItem") == 1
    assert admin.get(f"{PATH}/{ids.new('ak')}/usage").status == 404


def test_a_request_that_is_refused_is_a_use_too(admin: Client) -> None:
    """Somebody has the key: whoever asks whether it can be deleted should know."""
    created = admin.create(PATH, {"scopes": ["tunnels:read"]})
    assert admin.with_token(created["token"]).get(PATH).status == 403
    assert admin.get(f"{PATH}/{created['id']}/usage").json["last_used_at"] is not None


def denied(admin: Client, key: str) -> Any:
    return admin.get(f"{PATH}/{key}/usage").json["denied_last_hour"]


def test_what_a_key_was_denied_in_the_last_hour_is_counted_whatever_denied_it(admin: Client, member: Client) -> None:
    limited = admin.create(PATH, {"scopes": ["api_keys:write"]})
    theirs = key_in(member.token)
    bearer = admin.with_token(limited["token"])
    assert [bearer.get(PATH).status, bearer.post(PATH, {"scopes": ["*"]}).status] == [403, 403]
    assert member.get("/bot_users").status == member.post(PATH, {"owner_id": admin.user}).status == 403
    assert member.patch(f"/users/{admin.user}", {"active": False}).status == 403
    assert [bearer.post(PATH, {"scopes": []}).status, member.get(PATH).status] == [400, 200]
    assert admin.with_token(f"{limited['token']}x").get(PATH).status == 401
    assert (denied(admin, limited["id"]), denied(admin, theirs)) == (2, 3)
    age(limited["id"], 3500)
    assert denied(admin, limited["id"]) == 2
    age(limited["id"], 3600)
    assert denied(admin, limited["id"]) == 0
    assert bearer.get(PATH).status == 403
    assert denied(admin, limited["id"]) == 1


def test_a_flood_of_denied_requests_writes_a_hundred_times_an_hour_at_most(admin: Client) -> None:
    key = admin.create(PATH, {"scopes": ["tunnels:read"]})
    bearer = admin.with_token(key["token"])
    with calls() as made:
        assert {bearer.get(PATH).status for _ in range(key_usage.MAX_DENIED + 20)} == {403}
    assert made.count("UpdateItem") == 1 + key_usage.MAX_DENIED + 1  # the use, and that there is no room
    assert denied(admin, key["id"]) == key_usage.MAX_DENIED
    with calls() as made:
        assert bearer.get(PATH).status == 403
    assert made == ["GetItem"]


def test_there_is_room_again_for_denied_requests_when_those_of_before_are_an_hour_old(admin: Client) -> None:
    key = admin.create(PATH, {"scopes": ["tunnels:read"]})
    bearer = admin.with_token(key["token"])
    for _ in range(key_usage.MAX_DENIED):
        bearer.get(PATH)
    age(key["id"], 3600)
    assert bearer.get(PATH).status == 403
    assert denied(admin, key["id"]) == 1


def age(id: str, seconds: int) -> None:
    """Have what a key was denied be so many seconds old, as time would."""
    place = {"scope": {"S": f"token#{ids.unprefixed(id)}"}, "id": {"S": "denied"}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=place)["Item"]
    past = clock.seconds() - seconds
    record["denied"]["SS"] = [f"{past}.{number}" for number, _ in enumerate(record["denied"]["SS"])]
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)


def test_a_bots_key_is_authenticated_by_one_read_too(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    bearer = key(admin, owner_id=bot["id"])
    bearer.get(PATH)
    with calls() as made:
        bearer.get(f"/backends/weighted/{ids.new('bkdwd')}")
    assert made == ["GetItem", "GetItem"]


def test_whoever_is_switched_off_is_refused_by_the_next_request(admin: Client, member: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    bearer = key(admin, owner_id=bot["id"])
    for off, on in (
        (lambda: admin.patch(f"/bot_users/{bot['id']}", {"active": False}), {"active": True}),
        (lambda: owners.switch_owner(admin.account, bot["id"], "off"), {"active": True}),
    ):
        assert bearer.get(PATH).status == 200
        off()
        assert bearer.get(PATH).status == 401
        admin.patch(f"/bot_users/{bot['id']}", on)
    assert bearer.get(PATH).status == 200
    owners.switch_owner(admin.account, member.user, "off")
    assert member.get(PATH).status == 401
    accounts.switch_account(admin.account, "off")
    assert admin.get(PATH).status == 401
    accounts.switch_account(admin.account, "on")
    assert (admin.get(PATH).status, member.get(PATH).status) == (200, 401)
    assert admin.delete(f"/bot_users/{bot['id']}").status == 204
    assert bearer.get(PATH).status == 401


def test_the_operator_issues_no_key_to_whoever_is_switched_off(admin: Client, member: Client) -> None:
    owners.switch_owner(admin.account, member.user, "off")
    with pytest.raises(CommandError, match="is switched off: enable it first"):
        issue_key(admin.account, member.user, "")
    accounts.switch_account(admin.account, "off")
    with pytest.raises(CommandError, match="is switched off: enable it first"):
        issue_key(admin.account, admin.user, "")
    accounts.switch_account(admin.account, "on")
    owners.switch_owner(admin.account, member.user, "on")
    assert member.with_token(issue_key(admin.account, member.user, "")[1]).get(PATH).status == 200


MAKING = ("TransactWriteItems", "BatchGetItem")  # the calls that make a key, but for the caller's


@contextmanager
def before(operation: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something before the next request of an operation."""

    def interrupt(**_: object) -> None:
        events.unregister(name, interrupt)
        act()

    name, events = f"before-send.dynamodb.{operation}", aws.client("dynamodb").meta.events
    events.register_first(name, interrupt)
    yield
    events.unregister(name, interrupt)


@pytest.mark.parametrize("moment", MAKING)
@pytest.mark.parametrize("active", [True, False])
def test_a_key_that_is_made_while_its_bot_is_switched_does_as_the_bot_may(
    admin: Client, moment: str, active: bool
) -> None:
    bot = admin.create("/bot_users", {"name": "deployer", "active": not active})
    with before(moment, lambda: admin.patch(f"/bot_users/{bot['id']}", {"active": active})):
        bearer = key(admin, owner_id=bot["id"])
    assert bearer.get(PATH).status == (200 if active else 401)
    admin.patch(f"/bot_users/{bot['id']}", {"active": not active})
    assert bearer.get(PATH).status == (401 if active else 200)


@pytest.mark.parametrize("moment", MAKING)
def test_a_key_that_is_made_while_its_bot_is_deleted_lets_nobody_in(admin: Client, moment: str) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    with before(moment, lambda: admin.delete(f"/bot_users/{bot['id']}")):
        bearer = key(admin, owner_id=bot["id"])
    assert bearer.get(PATH).status == 401


def test_a_key_that_is_made_while_its_bot_is_switched_on_and_off_again_lets_nobody_in(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer", "active": False})

    def switch(*, active: bool) -> None:
        admin.patch(f"/bot_users/{bot['id']}", {"active": active})

    def switch_on() -> None:
        switch(active=True)
        corrected.enter_context(before("TransactWriteItems", lambda: switch(active=False)))

    with ExitStack() as corrected, before("BatchGetItem", switch_on):
        bearer = key(admin, owner_id=bot["id"])
    assert bearer.get(PATH).status == 401


def test_a_key_is_made_by_three_reads_and_one_write(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer", "active": False})["id"]
    with calls() as own:
        key(admin)
    with calls() as of_a_bot:
        key(admin, owner_id=bot)
    made = ["TransactWriteItems", "BatchGetItem"]
    assert (own, of_a_bot) == (["GetItem", "GetItem", *made], ["GetItem", "GetItem", "GetItem", *made])  # and the rules
