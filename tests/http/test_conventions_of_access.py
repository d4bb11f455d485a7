"""Who may reach what, for every endpoint of every kind of resource (SPEC 1, 5, 9)."""

from typing import Any

import pytest

from chalicelib import ids, modules
from chalicelib.http.endpoints import Routes
from chalicelib.http.resource import Resource
from tests.refusals import NO_TOKEN, NO_VERSION, UNKNOWN_TOKEN, assert_not_found, assert_refused
from tests.samples import KINDS, Collection, each_editable_kind, each_kind, each_kind_for_everyone
from tests.transports import Answer, Client

ROUTES: tuple[Routes, ...] = (*KINDS, *modules.ALL)
ENDPOINTS = [endpoint for routes in ROUTES for endpoint in routes.endpoints()]


@pytest.fixture
def mine(admin: Client, resource: Resource) -> Collection:
    return Collection.of(admin, resource)


@pytest.fixture
def theirs(stranger: Client, resource: Resource) -> Collection:
    return Collection.of(stranger, resource)


def without_operation(answer: Answer) -> Any:
    return {**answer.json, "details": {**answer.json["details"], "operation_id": ""}}


def test_every_endpoint_asks_for_a_token_before_anything_else(nobody: Client) -> None:
    for endpoint in ENDPOINTS:
        for version in ("2", "1", ""):
            answer = nobody.send(endpoint.method, f"{endpoint.path}?limit=0", b"no JSON", Service_Version=version)
            assert_refused(answer, 401, "unauthenticated", NO_TOKEN)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_every_endpoint_asks_for_a_version_before_it_looks_at_the_request(admin: Client) -> None:
    for endpoint in ENDPOINTS:
        for version in ("", "1"):
            answer = admin.send(endpoint.method, f"{endpoint.path}?limit=0", b"no JSON", Service_Version=version)
            assert_refused(answer, 400, "unsupported_version", NO_VERSION)


def test_a_deleted_key_opens_no_endpoint(admin: Client) -> None:
    key = admin.create("/api_keys", {})
    bearer = admin.with_token(key["token"])
    assert bearer.delete(f"/api_keys/{key['id']}").status == 204
    for endpoint in ENDPOINTS:
        assert_refused(bearer.send(endpoint.method, endpoint.path), 401, "unauthenticated", UNKNOWN_TOKEN)


@each_kind
def test_another_account_finds_nothing_of_this_one(mine: Collection, stranger: Client) -> None:
    one = mine.one()
    for endpoint in mine.endpoints_of_one():
        answer = stranger.send(endpoint.method, mine.address(endpoint, one["id"]))
        assert_not_found(answer, mine.kind.path)
        nothing = stranger.send(endpoint.method, mine.address(endpoint, ids.new(mine.kind.prefix)))
        assert without_operation(answer) == without_operation(nothing)
    assert mine.read(one["id"]) == one


@each_editable_kind
def test_another_account_cannot_change_anything_of_this_one(mine: Collection, stranger: Client) -> None:
    one = mine.one()
    answer = stranger.patch(f"{mine.path}/{one['id']}", {"description": "mine now"})
    assert_not_found(answer, mine.kind.path)
    assert mine.read(one["id"]) == one


@each_kind
def test_the_lists_of_two_accounts_have_nothing_in_common(mine: Collection, theirs: Collection) -> None:
    own, other = [mine.one() for _ in range(2)], [theirs.one() for _ in range(2)]
    assert mine.entries()[:2] == own[::-1]
    assert theirs.entries()[:2] == other[::-1]
    behind = theirs.client.get(f"{theirs.path}?before_id={own[1]['id']}").json[theirs.kind.array]
    assert own[0] not in behind
    assert own[0]["id"] not in theirs.client.get(mine.path).text


@each_kind_for_everyone
def test_all_of_an_account_see_what_one_of_them_made(mine: Collection, member: Client) -> None:
    one = Collection(member, mine.resource, mine.path).one()
    assert mine.read(one["id"]) == one
    assert mine.entries()[0] == one


@each_kind
def test_both_versions_are_served(mine: Collection) -> None:
    one = mine.one()
    for version in ("0", "2"):
        answer = mine.client.send("GET", f"{mine.path}/{one['id']}", Service_Version=version)
        assert (answer.status, answer.json) == (200, one)
