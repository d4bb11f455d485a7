"""API keys with an end and a reach: what a key may do and nothing else, and when its owner may act no more."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest

from chalicelib import ids, routes
from chalicelib.http.endpoints import Endpoint
from chalicelib.model.accounts import scopes
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.operator import accounts, owners
from chalicelib.operator.command_line import CommandError
from chalicelib.operator.keys import issue_key
from chalicelib.storage.client import aws
from tests.queries import calls
from tests.refusals import UNKNOWN_TOKEN, assert_invalid, assert_refused
from tests.transports import Client

PATH = "/api_keys"
BEYOND = "A key cannot create a key with more rights or a later end than its own."
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
    bearer = cache(lambda *key_scopes: key(admin, scopes=key_scopes))

    def lacks(endpoint: Endpoint, *key_scopes: str) -> bool:
        path = endpoint.path.replace("{edge_id}", "x").replace("{id}", "x")
        answer = bearer(*key_scopes).send(endpoint.method, path, {} if endpoint.body else None)
        required_scope = scopes.find_required(endpoint.method, endpoint.path)
        return answer.status == 403 and answer.json["msg"] == f"This API key lacks the scope {required_scope}."

    for endpoint in ENDPOINTS:
        required_scope = scopes.find_required(endpoint.method, endpoint.path)
        sufficient_scopes = [
            scope for scope in SCOPES if required_scope is None or scopes.covers([scope], required_scope)
        ]
        other_scopes = [scope for scope in SCOPES if scope not in sufficient_scopes]
        assert not lacks(endpoint, sufficient_scopes[0]), endpoint
        for batch in (other_scopes[:50], other_scopes[50:]):  # a key has at most 50 scopes
            assert not batch or lacks(endpoint, *batch), endpoint


@pytest.mark.parametrize("key_scopes", [None, ["edges:read"]])
def test_every_key_sees_and_ends_itself(admin: Client, key_scopes: list[str] | None) -> None:
    new_key = admin.create(PATH, {"scopes": key_scopes})
    bearer = admin.with_token(new_key["token"])
    answer = bearer.get(f"{PATH}/self")
    assert (answer.status, answer.json) == (200, {**new_key, "token": None})
    assert answer.headers["etag"] == admin.get(f"{PATH}/{new_key['id']}").headers["etag"]
    assert bearer.send("DELETE", f"{PATH}/self", If_Match='"1-x"').status == 412
    deletion = bearer.delete(f"{PATH}/self")
    assert (deletion.status, deletion.text) == (204, "")
    assert_refused(bearer.get(f"{PATH}/self"), 401, "unauthenticated", UNKNOWN_TOKEN)
    (event,) = admin.get(f"/audit_events?resource_id={new_key['id']}&action=api_key.delete").json["audit_events"]
    assert event["actor"]["key_id"] == new_key["id"]
    assert bearer.patch(f"{PATH}/self", {}).status == 405


@pytest.mark.parametrize("own_scopes", [["*:read", "api_keys:write"], ["api_keys:write", "edges:write"]])
def test_a_key_never_makes_one_with_more_reach(admin: Client, own_scopes: list[str]) -> None:
    bearer = key(admin, scopes=own_scopes)
    for scope in scopes.list_scopes():
        answer = bearer.post(PATH, {"scopes": [scope]})
        if KeyLimits(tuple(own_scopes)).covers(scope):
            assert answer.json["scopes"] == [scope]
        else:
            covered = ", ".join(own_scopes)
            rule = f"must contain only scopes that your own key covers ({covered}); it does not cover '{scope}'"
            assert_refused(answer, 403, "forbidden", BEYOND, {"scopes": rule})
    assert bearer.create(PATH, {})["scopes"] == own_scopes


def test_a_key_never_makes_one_with_a_later_end(admin: Client) -> None:
    bearer = key(admin, expires_at=FAR)
    rule = {"expires_at": "must not be later than the end of your own key"}
    assert_refused(bearer.post(PATH, {"expires_at": FARTHER}), 403, "forbidden", BEYOND, rule)
    assert bearer.create(PATH, {})["expires_at"] == FAR
    assert bearer.create(PATH, {"expires_at": "2097-01-01T00:00:00Z"})["expires_at"] == "2097-01-01T00:00:00Z"


def test_a_key_without_end_and_scopes_looks_as_the_specification_has_it_but_for_its_maker(admin: Client) -> None:
    new_key = admin.create(PATH, {"expires_at": None, "scopes": None})
    assert new_key.keys() == {"id", "uri", "created_at", "created_by", "description", "metadata", "token", "owner_id"}


def test_ends_and_scopes_are_checked_and_cannot_be_changed(admin: Client) -> None:
    assert_invalid(admin.post(PATH, {"scopes": []}), {"scopes": "must not be empty"})
    forms = "'*', '*:read', <collection>:<right> or <collection>:<right>@<id>"
    rule = f"must be {forms}, for example edges:read; the rights are read, write, create and revoke"
    for scope in ("", "api_keys", "api_keys:delete", "nothing:read", "*:write"):
        assert_invalid(admin.post(PATH, {"scopes": [scope]}), {"scopes.0": rule})
    assert_invalid(admin.post(PATH, {"expires_at": "2020-01-01T00:00:00Z"}), {"expires_at": "must be in the future"})
    address = f"{PATH}/{admin.create(PATH, {})['id']}"
    unknown = "is not accepted here; accepted: description, metadata"
    answer = admin.patch(address, {"scopes": ["*"], "expires_at": FAR})
    assert_invalid(answer, {"scopes": unknown, "expires_at": unknown})


def test_an_ended_key_is_refused_as_an_unknown_one_is(admin: Client) -> None:
    new_key = admin.create(PATH, {"expires_at": FAR})
    bearer = admin.with_token(new_key["token"])
    assert bearer.get(PATH).status == 200
    end(new_key["id"])
    assert_refused(bearer.get(PATH), 401, "unauthenticated", UNKNOWN_TOKEN)


def end(id: str) -> None:
    """Have a key's end be in the past, as time would."""
    aws.client("dynamodb").update_item(
        TableName="tunnel-edge",
        Key={"scope": {"S": f"token#{ids.strip_prefix(id)}"}, "id": {"S": "claim"}},
        UpdateExpression="SET #body.expires_at = :past",
        ExpressionAttributeNames={"#body": "body"},
        ExpressionAttributeValues={":past": {"N": "1"}},
    )


def test_a_bots_key_is_authenticated_by_one_read_too(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})
    bearer = key(admin, owner_id=bot["id"])
    bearer.get(PATH)
    with calls() as operations:
        bearer.get(f"/backends/weighted/{ids.new('bkdwd')}")
    assert operations == ["GetItem", "GetItem"]


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
    with pytest.raises(CommandError, match="is switched off: enable both first"):
        issue_key(admin.account, member.user, "")
    accounts.switch_account(admin.account, "off")
    with pytest.raises(CommandError, match="is switched off: enable both first"):
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
    with calls() as user_calls:
        key(admin)
    with calls() as bot_calls:
        key(admin, owner_id=bot)
    writes = ["TransactWriteItems", "BatchGetItem"]
    assert user_calls == ["GetItem", "GetItem", *writes]  # and the rules
    assert bot_calls == ["GetItem", "GetItem", "GetItem", *writes]
