"""Idempotency keys: one key of one account stands for one request, and what it made, for 24 hours."""

import hashlib
from typing import Any

import pytest

from chalicelib.http.resource import EditableResource
from chalicelib.operator import owners
from chalicelib.operator.keys import issue_key
from chalicelib.storage.client import aws
from tests.modules.samples import OF_EDGES, SAMPLES
from tests.refusals import assert_refused
from tests.samples import KINDS, Collection, each_editable_kind
from tests.transports import Client

ANOTHER = "This Idempotency-Key was already used for another request: choose another key."
LOST = "If it is lost, delete the resource and create another."


@each_editable_kind
def test_a_request_that_is_repeated_is_done_once(collection: Collection) -> None:
    admin = collection.client
    body, before, earlier_events = collection.body(), len(collection.entries()), events(admin)
    first = admin.send("POST", collection.path, body, Idempotency_Key="a")
    assert first.status == 201, first.text
    again = admin.send("POST", collection.path, body, Idempotency_Key="a")
    if "token" in first.json:
        sentence = f"This request was already done: it created {first.json['id']}."
        msg = f"{sentence} The secret in its response is shown only once. {LOST}"
        assert_refused(again, 409, "conflict", msg)
    else:
        assert (again.status, again.json) == (201, first.json)
        assert again.headers["etag"] == first.headers["etag"]
    assert len(collection.entries()) == before + 1
    assert len(events(admin)) == len(earlier_events) + 1
    other = admin.send("POST", collection.path, {**body, "description": "another"}, Idempotency_Key="a")
    assert_refused(other, 409, "conflict", ANOTHER)
    assert len(collection.entries()) == before + 1


def events(client: Client) -> list[Any]:
    return list(client.all("/audit_events", "audit_events"))


def test_a_key_is_of_one_account(admin: Client, stranger: Client) -> None:
    backend_ids = [
        client.send("POST", "/backends/weighted", {}, Idempotency_Key="a").json["id"] for client in (admin, stranger)
    ]
    assert backend_ids[0] != backend_ids[1]
    assert stranger.get(f"/backends/weighted/{backend_ids[0]}").status == 404


def test_only_what_was_done_is_kept(admin: Client) -> None:
    path = "/backends/weighted"
    assert admin.send("POST", path, {"backends": 1}, Idempotency_Key="a").status == 400
    assert admin.send("POST", path, {}, Idempotency_Key="a").status == 201


def test_after_a_day_a_key_stands_for_nothing(admin: Client) -> None:
    first = admin.send("POST", "/backends/weighted", {}, Idempotency_Key="a").json["id"]
    scope = f"{admin.account}#/idempotency/{hashlib.sha256(b'a').hexdigest()}"
    aws.client("dynamodb").update_item(  # as the clock would have it
        TableName="tunnel-edge",
        Key={"scope": {"S": scope}, "id": {"S": "request"}},
        UpdateExpression="SET expires = :past",
        ExpressionAttributeValues={":past": {"N": "1"}},
    )
    second = admin.send("POST", "/backends/weighted", {"description": "x"}, Idempotency_Key="a")
    assert second.status == 201
    assert second.json["id"] != first


@pytest.mark.parametrize("key", ["a b", "é", "a" * 256])
def test_a_key_is_visible_ascii_of_ordinary_length(admin: Client, key: str) -> None:
    msg = "The header 'Idempotency-Key' must have 1 to 255 visible ASCII characters."
    answer = admin.send("POST", "/backends/weighted", {}, Idempotency_Key=key)
    assert_refused(answer, 400, "invalid_request", msg)


@each_editable_kind
def test_another_api_key_sees_nothing_of_what_one_made(admin: Client, resource: EditableResource) -> None:
    collection = Collection.of(admin, resource)
    body, name = collection.body(), collection.path.split("/")[1]
    colleague = issue_key(admin.account, owners.add_owner(admin.account, "usr", "eve", admin=True).id, "")
    scope = "*" if collection.path == "/federated_credentials" else f"{name}:write"
    writer = admin.create("/api_keys", {"scopes": [scope]})["token"]
    assert admin.send("POST", collection.path, body, Idempotency_Key="a").status == 201
    for token in (colleague[1], writer):
        answer = admin.with_token(token).send("POST", collection.path, body, Idempotency_Key="a")
        assert_refused(answer, 409, "conflict", ANOTHER)


PACKED = {name for resource in KINDS for name in resource.stored.PACKED}
MODULES = {
    module.name: SAMPLES[module.path][0].request
    for module in OF_EDGES
    if module.home == "/edges/https/{edge_id}/routes/{id}" and module.name != "basic_auth"  # not beside OAuth
}


@each_editable_kind
def test_no_secret_stays_of_what_was_deleted(collection: Collection) -> None:
    """No kind has a secret that is not encrypted, and what is encrypted is stored as bytes."""
    admin = collection.client
    body = {**collection.body(), **(MODULES if collection.kind.noun == "https_edge_route" else {})}
    before = with_bytes()
    first = admin.send("POST", collection.path, body, Idempotency_Key="a")
    assert admin.delete(f"{collection.path}/{first.json['id']}").status == 204
    assert with_bytes() == before
    again = admin.send("POST", collection.path, body, Idempotency_Key="a")
    if "token" not in first.json:
        assert (again.status, again.json, again.headers["etag"]) == (201, first.json, first.headers["etag"])
    assert "hunter2" not in repr(records())


def records() -> list[dict[str, Any]]:
    return [*aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"]]


def with_bytes() -> list[str]:
    """Return the scopes of all records that hold bytes, but for those that are no secret: lists, and packed texts."""
    return sorted(
        record["scope"]["S"]
        for record in records()
        if holds_bytes(record) and not record["scope"]["S"].startswith("krl#")
    )


def holds_bytes(value: Any) -> bool:
    """Tell whether an attribute of the store, or one within it, is binary."""
    if isinstance(value, dict):
        secret = (child for name, child in value.items() if name not in PACKED)
        return bool(value.keys() & {"B", "BS"}) or any(map(holds_bytes, secret))
    return isinstance(value, list) and any(map(holds_bytes, value))
