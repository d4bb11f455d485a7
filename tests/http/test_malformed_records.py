"""Malformed records of every kind: no list breaks, only the request for that id is a 500, and DELETE removes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.http.resource import EditableResource, Resource
from chalicelib.storage.client import aws, dynamodb
from tests import conformity
from tests.samples import KINDS, Collection, public_key
from tests.transports import RECORD, Client

WRONG: tuple[Any, ...] = (None, True, 7, "text", b"bytes", [], {}, [{}], ["a"], {"a": "b"}, {"a": 1})
ATTRIBUTES = (
    "body",
    "parts",
    "sealed",
    "unseen",
    "claims",
    "points",
    "pointed_by",
    "revision",
)  # moto cannot compare other times
FORMS = 60  # of each kind
each = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind.path)


def stored(id: str) -> dict[str, Any]:
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    found = [item for page in pages for item in page["Items"] if item["id"]["S"].rpartition("/")[2] == id]
    (record,) = [item for item in found if not item["scope"]["S"].startswith("edge#")]
    return dynamodb.plain(record)


def put(record: Mapping[str, Any]) -> None:
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=dynamodb.attributes(record))


def forms(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield malformed forms of a record: each attribute, and each field of its body, of other types."""
    names = [(name, wrong) for wrong in WRONG for name in ATTRIBUTES]
    fields = [(name, wrong) for wrong in WRONG for name in record["body"]]
    yield from ({**record, name: wrong} for name, wrong in names if wrong.__class__ is not record.get(name).__class__)
    for name, wrong in fields:
        if wrong.__class__ is not record["body"][name].__class__:
            yield {**record, "body": {**record["body"], name: wrong}}
    for name in record["body"]:
        yield {**record, "body": {other: value for other, value in record["body"].items() if other != name}}


def some(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return FORMS of the malformed forms of a record, spread over all of them."""
    every = [*forms(record)]
    step = max(len(every) // FORMS, 1)
    return every[::step]


def listed(client: Client, path: str, resource: Resource) -> list[str]:
    answer = client.get(path)
    assert answer.status == 200, answer.text
    return [entry["id"] for entry in answer.json[resource.kind.array]]


@each
def test_a_malformed_record_breaks_and_hides_nothing_but_itself(admin: Client, resource: Resource) -> None:
    admin = replace(admin, check=conformity.of_another_app)  # a record without a time shows ""
    collection = Collection.of(admin, resource)
    other, malformed = (collection.one()["id"] for _ in range(2))
    intact = stored(malformed)
    seen = {200: 0, 404: 0, 500: 0}
    for form in some(intact):
        put(form)
        first = len(RECORD.logs)
        found = listed(admin, collection.path, resource)
        answer = admin.get(f"{collection.path}/{malformed}")
        seen[answer.status] += 1
        assert other in found, form
        assert admin.get(f"{collection.path}/{other}").status == 200
        if answer.status == 500:
            assert malformed not in found, form
            assert answer.json["details"]["operation_id"]
            lines = [json.loads(line) for line in RECORD.logs[first:] if line.startswith("{")]
            assert any(line.get("event") == "malformed_record" and line.get("problem") for line in lines), form
        else:
            assert (malformed in found) == (answer.status == 200), form
    assert seen[500] > FORMS / 2


@pytest.mark.parametrize(
    "resource", [it for it in KINDS if isinstance(it, EditableResource)], ids=lambda it: it.kind.path
)
def test_delete_removes_a_malformed_record(admin: Client, resource: EditableResource) -> None:
    admin = replace(admin, check=conformity.of_another_app)
    collection = Collection.of(admin, resource)
    other, malformed = (collection.one()["id"] for _ in range(2))
    intact = stored(malformed)
    for form in some(intact):
        put(form)
        if admin.get(f"{collection.path}/{malformed}").status != 500:
            continue
        answer = admin.delete(f"{collection.path}/{malformed}")
        assert answer.status == 204, (form, answer.text)
        assert admin.get(f"{collection.path}/{malformed}").status == 404
        found = listed(admin, collection.path, resource)
        assert (other in found, malformed in found) == (True, False), form


@pytest.mark.parametrize("wrong", [{"body": "text"}, {"claims": 7}, {"sealed": "text"}, {"sealed": {"private_key": 7}}])
@pytest.mark.parametrize("path", ["/ssh_user_certificates", "/ssh_host_certificates"])
def test_a_certificate_of_a_malformed_authority_is_a_logged_fault(
    admin: Client, path: str, wrong: Mapping[str, Any]
) -> None:
    asked = {"ssh_certificate_authority_id": admin.create("/ssh_certificate_authorities", {})["id"]}
    intact = stored(asked["ssh_certificate_authority_id"])
    put({**intact, **wrong})
    first = len(RECORD.logs)
    answer = admin.post(path, {**asked, "public_key": public_key()})
    assert (answer.status, answer.json["error_code"]) == (500, "internal_error")
    assert answer.json["details"] == {"operation_id": answer.headers["operation-id"]}
    lines = [json.loads(line) for line in RECORD.logs[first:] if line.startswith("{")]
    assert [line["operation_id"] for line in lines if line.get("event") == "malformed_record"] == [
        answer.headers["operation-id"]
    ]
    put(intact)
    assert admin.post(path, {**asked, "public_key": public_key()}).status == 201
