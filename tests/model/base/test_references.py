"""Strict references: what weighted backends and credentials refer to is there, and stays while they do."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage.records import items, table
from tests import records
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.samples import public_key
from tests.transports import Answer, Client

WEIGHTED = "/backends/weighted"
RESPONSE = "/backends/http_response"
GROUP = "/backends/tunnel_group"
BOTS = "/bot_users"
TOO_MANY = "must name at most 96 resources; one request can add or remove at most 96"


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")


def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "false")


def create_backends(client: Client, count: int) -> list[str]:
    """Return the ids of new backends: one that the API made, and copies of it, which is quicker."""
    first = table.read(items.scope(client.account, RESPONSE), client.create(RESPONSE, {})["id"])
    assert first
    copies = [replace(first, id=ids.new("bkdhr"), read_at=None) for _ in range(count - 1)]
    for copy in copies:
        records.create(copy)
    return [first.id, *(copy.id for copy in copies)]


def create_weighted(client: Client, *children: str) -> Any:
    return client.create(WEIGHTED, {"backends": dict.fromkeys(children, 1)})


def change(client: Client, backend: Any, *children: str) -> Answer:
    return client.patch(f"{WEIGHTED}/{backend['id']}", {"backends": dict.fromkeys(children, 1)})


def assert_unknown(answer: Answer, field: str, id: str) -> None:
    assert_refused(
        answer,
        400,
        "unknown_reference",
        f"'{field}' names a resource that does not exist.",
        {field: f"{id} does not exist"},
    )


def assert_held(answer: Answer, *referrers: str) -> None:
    details = {f"used_by.{index}": referrer for index, referrer in enumerate(sorted(referrers))}
    assert_refused(answer, 409, "conflict", f"The resource is in use by {', '.join(sorted(referrers))}.", details)


# Weighted backends and their children.


@pytest.mark.parametrize("path", [RESPONSE, GROUP, WEIGHTED])
def test_a_child_of_any_kind_must_be_known_and_stays_while_it_is_one(admin: Client, path: str) -> None:
    child = admin.create(path, {"description": "a child"})
    parent = create_weighted(admin, child["id"])
    assert parent["backends"] == {child["id"]: 1}
    assert_held(admin.delete(f"{path}/{child['id']}"), f"{WEIGHTED}/{parent['id']}")
    assert admin.get(f"{path}/{child['id']}").json == child
    assert admin.delete(f"{WEIGHTED}/{parent['id']}").status == 204
    assert admin.delete(f"{path}/{child['id']}").status == 204


@pytest.mark.parametrize("prefix", ["bkdhr", "bkdtg", "bkdwd", "bkdxy"])
def test_an_unknown_child_is_refused_and_nothing_is_made(admin: Client, prefix: str) -> None:
    child, unknown = create_backends(admin, 1)[0], ids.new(prefix)
    assert_unknown(admin.post(WEIGHTED, {"backends": {child: 1, unknown: 1}}), "backends", unknown)
    assert list(admin.all(WEIGHTED, "backends")) == []
    assert admin.delete(f"{RESPONSE}/{child}").status == 204


def test_a_child_of_another_account_is_unknown(admin: Client, stranger: Client) -> None:
    [stranger_child] = create_backends(stranger, 1)
    assert_unknown(admin.post(WEIGHTED, {"backends": {stranger_child: 1}}), "backends", stranger_child)
    assert stranger.delete(f"{RESPONSE}/{stranger_child}").status == 204


def test_a_change_to_an_unknown_child_changes_nothing(admin: Client) -> None:
    old, new = create_backends(admin, 2)
    parent, unknown = create_weighted(admin, old), ids.new("bkdhr")
    assert_unknown(change(admin, parent, new, unknown), "backends", unknown)
    assert admin.get(f"{WEIGHTED}/{parent['id']}").json == parent
    assert_held(admin.delete(f"{RESPONSE}/{old}"), f"{WEIGHTED}/{parent['id']}")
    assert admin.delete(f"{RESPONSE}/{new}").status == 204


def test_a_change_of_the_children_holds_the_new_and_frees_the_old(admin: Client) -> None:
    old, common, new = create_backends(admin, 3)
    parent = create_weighted(admin, old, common)
    assert change(admin, parent, common, new).json == {**parent, "backends": {common: 1, new: 1}}
    assert admin.delete(f"{RESPONSE}/{old}").status == 204
    for child in (common, new):
        assert_held(admin.delete(f"{RESPONSE}/{child}"), f"{WEIGHTED}/{parent['id']}")


def test_a_change_of_something_else_keeps_the_children_held(admin: Client) -> None:
    [child] = create_backends(admin, 1)
    parent = create_weighted(admin, child)
    change: Any
    for change in ({"description": "new"}, {"backends": {}}, {"backends": None}, {}):
        assert admin.patch(f"{WEIGHTED}/{parent['id']}", change).json["backends"] == {child: 1}
    assert_held(admin.delete(f"{RESPONSE}/{child}"), f"{WEIGHTED}/{parent['id']}")


def test_a_refusal_names_all_who_point_at_a_backend_up_to_ten(admin: Client) -> None:
    [child] = create_backends(admin, 1)
    parents = [create_weighted(admin, child) for _ in range(3)]
    assert_held(admin.delete(f"{RESPONSE}/{child}"), *[f"{WEIGHTED}/{parent['id']}" for parent in parents])
    parents += [create_weighted(admin, child) for _ in range(9)]
    ten = sorted(f"{WEIGHTED}/{parent['id']}" for parent in parents)[:10]
    assert_held(admin.delete(f"{RESPONSE}/{child}"), *ten)


def test_a_change_of_a_backend_that_is_not_there_is_not_found(admin: Client) -> None:
    [child] = create_backends(admin, 1)
    assert_not_found(change(admin, {"id": ids.new("bkdwd")}, child), WEIGHTED)
    assert admin.delete(f"{RESPONSE}/{child}").status == 204


def test_a_backend_names_at_most_96_children(admin: Client) -> None:
    children, one_more = create_backends(admin, 96), ids.new("bkdhr")
    answer = admin.post(WEIGHTED, {"backends": dict.fromkeys([*children, one_more], 1)})
    assert_invalid(answer, {"backends": TOO_MANY})
    parent = create_weighted(admin, *children)
    assert_invalid(change(admin, parent, *children, one_more), {"backends": TOO_MANY})
    assert admin.get(f"{WEIGHTED}/{parent['id']}").json == parent
    assert admin.delete(f"{WEIGHTED}/{parent['id']}").status == 204
    assert admin.delete(f"{RESPONSE}/{children[0]}").status == 204


def test_a_change_adds_and_removes_at_most_96_children_at_once(admin: Client) -> None:
    parent = create_weighted(admin, *create_backends(admin, 50))
    answer = change(admin, parent, *[ids.new("bkdhr") for _ in range(48)])
    assert_invalid(answer, {"backends": TOO_MANY})
    assert admin.get(f"{WEIGHTED}/{parent['id']}").json == parent
    assert change(admin, parent, *create_backends(admin, 1)).status == 200


def test_without_strict_references_a_hundred_children_need_not_be_known(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient(monkeypatch)
    [child] = create_backends(admin, 1)
    parent = create_weighted(admin, child, *[ids.new("bkdhr") for _ in range(99)])
    assert admin.delete(f"{RESPONSE}/{child}").status == 204
    assert change(admin, parent, ids.new("bkdtg")).status == 200
    assert admin.delete(f"{WEIGHTED}/{parent['id']}").status == 204


def test_what_was_held_is_freed_by_a_change_after_the_setting_was_turned_off(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [child] = create_backends(admin, 1)
    parent = create_weighted(admin, child)
    lenient(monkeypatch)
    assert_held(admin.delete(f"{RESPONSE}/{child}"), f"{WEIGHTED}/{parent['id']}")
    assert change(admin, parent, ids.new("bkdhr")).status == 200
    assert admin.delete(f"{RESPONSE}/{child}").status == 204


def test_what_was_made_before_the_setting_was_turned_on_is_held_from_its_next_change_on(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = create_backends(admin, 2)
    lenient(monkeypatch)
    parent = create_weighted(admin, first, second)
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    assert admin.delete(f"{RESPONSE}/{first}").status == 204
    assert_unknown(change(admin, parent, first, second), "backends", first)
    assert change(admin, parent, second).status == 200
    assert_held(admin.delete(f"{RESPONSE}/{second}"), f"{WEIGHTED}/{parent['id']}")


# Bots and what they own.


def test_a_bot_stays_while_it_owns_credentials(admin: Client) -> None:
    bot = admin.create(BOTS, {"name": "deploy"})
    key = admin.create("/api_keys", {"owner_id": bot["id"]})
    credential = admin.create("/ssh_credentials", {"owner_id": bot["id"], "public_key": public_key()})
    uris = [f"/api_keys/{key['id']}", f"/ssh_credentials/{credential['id']}"]
    assert_held(admin.delete(f"{BOTS}/{bot['id']}"), *uris)
    assert admin.get(f"{BOTS}/{bot['id']}").json == bot
    for uri in uris:
        assert admin.patch(uri, {"description": "new"}).status == 200
        assert admin.delete(uri).status == 204
    assert admin.delete(f"{BOTS}/{bot['id']}").status == 204


def test_a_bot_is_held_by_the_keys_it_made_itself(admin: Client) -> None:
    bot = admin.create(BOTS, {"name": "deploy"})
    first = admin.create("/api_keys", {"owner_id": bot["id"]})
    second = admin.with_token(first["token"]).create("/api_keys", {})
    assert second["owner_id"] == bot["id"]
    assert_held(admin.delete(f"{BOTS}/{bot['id']}"), *[f"/api_keys/{key['id']}" for key in (first, second)])


def test_users_are_never_held(admin: Client, member: Client) -> None:
    key = admin.create("/api_keys", {"owner_id": member.user})
    assert admin.create("/api_keys", {})["owner_id"] == admin.user
    assert admin.patch(f"/api_keys/{key['id']}", {"description": "new"}).status == 200
    assert admin.delete(f"/api_keys/{key['id']}").status == 204


def test_without_strict_references_a_bot_can_go_before_its_credentials(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient(monkeypatch)
    bot = admin.create(BOTS, {"name": "deploy"})
    key = admin.create("/api_keys", {"owner_id": bot["id"]})
    assert admin.delete(f"{BOTS}/{bot['id']}").status == 204
    assert admin.with_token(key["token"]).get("/tunnels").status == 401
    assert admin.delete(f"/api_keys/{key['id']}").status == 204
