"""What users and bots own or had signed: who made it, and lists by owner."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.operator import keys
from chalicelib.storage.client import aws
from tests import samples
from tests.refusals import assert_invalid
from tests.transports import Client, key_in

OWNED = ("/api_keys", "/ssh_credentials", "/ssh_user_certificates", "/ssh_host_certificates")
ARRAYS = dict(zip(OWNED, ("keys", "ssh_credentials", "ssh_user_certificates", "ssh_host_certificates"), strict=True))
each_owned = pytest.mark.parametrize("path", OWNED)


def page(client: Client, path: str, owner: str, query: str = "") -> tuple[list[str], Any]:
    """Return the ids of a page of what an owner has, and the address of the next one."""
    answer = client.get(f"{path}?owner_id={owner}{query}")
    assert answer.status == 200, answer.text
    return [entry["id"] for entry in answer.json[ARRAYS[path]]], answer.json["next_page_uri"]


@pytest.mark.parametrize("path", [*OWNED, "/tls_certificates"])
def test_what_a_key_makes_says_so_and_what_nobody_knows_the_maker_of_says_nothing(admin: Client, path: str) -> None:
    resource = admin.create(path, samples.BODIES[path](admin))
    assert resource["created_by"] == key_in(admin.token)
    changed_resource = admin.patch(f"{path}/{resource['id']}", {"description": "new"}).json
    assert changed_resource["created_by"] == resource["created_by"]
    item_key = {"scope": {"S": f"{admin.account}#{path}"}, "id": {"S": resource["id"]}}
    record = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=item_key)["Item"]
    del record["body"]["M"]["created_by"]  # as in 2.0.0
    record.pop("unseen", None)
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)
    body = admin.get(f"{path}/{resource['id']}").json
    assert body == {name: value for name, value in changed_resource.items() if name != "created_by"}
    if path in OWNED[2:]:
        assert page(admin, path, admin.user) == ([], None)


def test_a_key_that_the_operator_issues_says_so(admin: Client) -> None:
    key, _ = keys.issue_key(admin.account, admin.user, "")
    assert [admin.get(f"/api_keys/{id}").json["created_by"] for id in (key.id, "self")] == ["operator", "operator"]


@each_owned
def test_a_list_is_of_one_owner_where_it_is_asked_so(admin: Client, member: Client, path: str) -> None:
    before = {user: page(admin, path, user)[0] for user in (admin.user, member.user)}
    ids_by_owner: dict[str, list[str]] = {admin.user: [], member.user: []}
    for client in (admin, member, admin, member, admin):
        ids_by_owner[client.user].insert(0, client.create(path, samples.BODIES[path](client))["id"])
    for user in (admin.user, member.user):
        expected = ids_by_owner[user] + before[user]
        for client in (admin, member):
            assert page(client, path, user) == (expected, None)
        listed_ids, following = page(admin, path, user, "&limit=1")
        while following:
            more, following = page(admin, path, user, f"&limit=1&before_id={listed_ids[-1]}")
            listed_ids += more
        assert listed_ids == expected
    assert page(admin, path, ids.new("bot")) == ([], None)


@each_owned
def test_an_address_of_the_next_page_keeps_the_owner(admin: Client, path: str) -> None:
    created_ids = [admin.create(path, samples.BODIES[path](admin))["id"] for _ in range(2)]
    _, following = page(admin, path, admin.user, "&limit=1")
    assert following == f"http://localhost{path}?owner_id={admin.user}&before_id={created_ids[1]}&limit=1"


@each_owned
def test_an_owner_in_a_query_is_the_id_of_one(admin: Client, path: str) -> None:
    rule = "must be the id of a user (usr_…) or bot (bot_…)"
    for owner in ("", "x", ids.new("ak"), "usr_"):
        assert_invalid(admin.get(f"{path}?owner_id={owner}"), {"owner_id": rule})
