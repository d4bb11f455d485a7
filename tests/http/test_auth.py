"""Who may reach what, for every endpoint of every kind of resource (SPEC 1, 5, 9)."""

from chalicelib import modules
from chalicelib.http.endpoints import Routes
from chalicelib.model.base import kinds
from chalicelib.operator import owners
from infra.build.openapi import examples
from tests import gateway
from tests.refusals import NO_TOKEN, NO_VERSION, UNKNOWN_TOKEN, assert_not_found, assert_refused
from tests.samples import KINDS, Collection, each_kind, each_kind_for_everyone
from tests.transports import Client

ROUTES: tuple[Routes, ...] = (*KINDS, *modules.load_all())
ENDPOINTS = [endpoint for routes in ROUTES for endpoint in routes.endpoints()]


def test_every_endpoint_asks_for_a_token_before_anything_else(nobody: Client) -> None:
    for endpoint in ENDPOINTS:
        for version in ("2", "1", ""):
            answer = nobody.send(endpoint.method, f"{endpoint.path}?limit=0", b"no JSON", Service_Version=version)
            assert_refused(answer, 401, "unauthenticated", NO_TOKEN)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_every_endpoint_asks_for_a_version_before_it_looks_at_the_request(admin: Client) -> None:
    for endpoint in ENDPOINTS:
        answer = admin.send(endpoint.method, f"{endpoint.path}?limit=0", b"no JSON", Service_Version="1")
        assert_refused(answer, 400, "unsupported_version", NO_VERSION)


def test_a_deleted_key_opens_no_endpoint(admin: Client) -> None:
    key = admin.create("/api_keys", {})
    bearer = admin.with_token(key["token"])
    assert bearer.delete(f"/api_keys/{key['id']}").status == 204
    for endpoint in ENDPOINTS:
        assert_refused(bearer.send(endpoint.method, endpoint.path), 401, "unauthenticated", UNKNOWN_TOKEN)


@each_kind
def test_another_account_finds_and_changes_nothing_of_this_one(mine: Collection) -> None:
    one, stranger = mine.one(), gateway.admin()
    for endpoint in mine.endpoints_of_one():
        change = examples.read()[mine.kind.noun]["update"] if endpoint.method == "PATCH" else None
        assert_not_found(stranger.send(endpoint.method, mine.address(endpoint, one["id"]), change), mine.kind.path)
    assert mine.read(one["id"]) == one


@each_kind
def test_the_lists_of_two_accounts_have_nothing_in_common(mine: Collection) -> None:
    theirs = Collection.of(gateway.admin(), mine.resource)
    own, other = [mine.one() for _ in range(2)], theirs.one()
    assert mine.entries()[:2] == own[::-1]
    assert theirs.entries()[0] == other
    behind = theirs.client.get(f"{theirs.path}?before_id={own[1]['id']}").json[theirs.kind.array]
    assert own[0] not in behind
    assert own[0]["id"] not in theirs.client.get(mine.path).text


@each_kind_for_everyone
def test_all_of_an_account_see_what_one_of_them_made_in_both_versions(mine: Collection) -> None:
    is_admin = mine.resource.kind is kinds.SSH_REVOCATIONS  # others revoke only certificates of their own
    user = owners.add_owner(mine.client.account, "usr", "other", admin=is_admin)
    one = Collection(gateway.client(mine.client.account, user.id, "0", admin=is_admin), mine.resource, mine.path).one()
    assert mine.read(one["id"]) == one
    assert mine.entries()[0] == one
