"""Malformed records of every kind: all forms are recognized; lists go on, GET is a 500, and DELETE removes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.http.resource import EditableResource, Resource
from chalicelib.storage.records import items
from chalicelib.storage.records.decoding import MalformedRecord
from tests import conformity
from tests.records import WRONG, put, read_record
from tests.samples import KINDS, Collection
from tests.transports import RECORD, Client

ATTRIBUTES = ("body", "parts", "sealed", "unseen", "claims", "points", "pointed_by", "revision")  # moto compares times
FORMS = 6  # of each kind, over HTTP
each_kind = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind.path)


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


def pick_forms(record: Mapping[str, Any], first: int) -> list[dict[str, Any]]:
    """Return FORMS of the malformed forms of a record, spread over all of them, from one of the first on."""
    all_forms = [*forms(record)]
    step = len(all_forms) // FORMS
    return all_forms[first % step :: step]


def is_malformed(resource: Resource, form: Mapping[str, Any]) -> bool:
    """Return whether a record is rejected; any other error than MalformedRecord is a fault."""
    try:
        item = items.decode_with_body(form)
        if item:
            resource.check(item)
    except MalformedRecord:
        return True
    return False


def list_ids(client: Client, path: str, resource: Resource) -> list[str]:
    answer = client.get(path)
    assert answer.status == 200, answer.text
    return [entry["id"] for entry in answer.json[resource.kind.array]]


@each_kind
def test_every_form_of_a_record_is_read_or_rejected(admin: Client, resource: Resource) -> None:
    record = read_record(Collection.of(admin, resource).create()["id"])
    assert not is_malformed(resource, record)
    assert sum(is_malformed(resource, form) for form in forms(record)) > len([*forms(record)]) / 2


@each_kind
def test_a_malformed_record_breaks_and_hides_nothing_but_itself(admin: Client, resource: Resource) -> None:
    admin = replace(admin, check=conformity.of_another_app)  # a record without a time shows ""
    collection = Collection.of(admin, resource)
    other, malformed = (collection.create()["id"] for _ in range(2))
    intact, address, count = read_record(malformed), f"{collection.path}/{malformed}", 0
    for form in pick_forms(intact, KINDS.index(resource)):
        put(form)
        first = len(RECORD.logs)
        listed_ids = list_ids(admin, collection.path, resource)
        answer = admin.get(address)
        assert other in listed_ids, form
        assert admin.get(f"{collection.path}/{other}").status == 200
        assert (answer.status == 500) == is_malformed(resource, form), form
        if answer.status != 500:
            assert (malformed in listed_ids) == (answer.status == 200), form
            continue
        count += 1
        assert malformed not in listed_ids, form
        assert answer.json["details"]["operation_id"]
        lines = [json.loads(line) for line in RECORD.logs[first:] if line.startswith("{")]
        assert any(line.get("event") == "malformed_record" and line.get("problem") for line in lines), form
        if isinstance(resource, EditableResource):
            assert admin.delete(address).status == 204, form
            assert admin.get(address).status == 404
            listed_ids = list_ids(admin, collection.path, resource)
            assert (other in listed_ids, malformed in listed_ids) == (True, False), form
    assert count > FORMS / 3
