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
def test_another_account_finds_and_changes_nothing_of_this_one(collection: Collection) -> None:
    resource, stranger = collection.create(), gateway.admin()
    for endpoint in collection.endpoints_of_one():
        change = examples.read()[collection.kind.noun]["update"] if endpoint.method == "PATCH" else None
        assert_not_found(
            stranger.send(endpoint.method, collection.address(endpoint, resource["id"]), change), collection.kind.path
        )
    assert collection.read(resource["id"]) == resource


@each_kind
def test_the_lists_of_two_accounts_have_nothing_in_common(collection: Collection) -> None:
    strangers = Collection.of(gateway.admin(), collection.resource)
    resources, other = [collection.create() for _ in range(2)], strangers.create()
    assert collection.entries()[:2] == resources[::-1]
    assert strangers.entries()[0] == other
    older_entries = strangers.client.get(f"{strangers.path}?before_id={resources[1]['id']}").json[strangers.kind.array]
    assert resources[0] not in older_entries
    assert resources[0]["id"] not in strangers.client.get(collection.path).text


@each_kind_for_everyone
def test_all_of_an_account_see_what_one_of_them_made_in_both_versions(collection: Collection) -> None:
    is_admin = collection.resource.kind is kinds.SSH_REVOCATIONS  # others revoke only certificates of their own
    user = owners.add_owner(collection.client.account, "usr", "other", admin=is_admin)
    resource = Collection(
        gateway.client(collection.client.account, user.id, "0", admin=is_admin), collection.resource, collection.path
    ).create()
    assert collection.read(resource["id"]) == resource
    assert collection.entries()[0] == resource
