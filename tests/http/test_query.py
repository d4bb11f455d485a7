"""Queries: only lists take one, and every fault of it is named."""

from typing import Any

import pytest

from chalicelib import ids
from tests.refusals import assert_invalid
from tests.samples import Collection, each_editable_kind, each_kind
from tests.transports import Client

BASE = "http://localhost"


UNKNOWN = "is not accepted here; accepted: before_id, limit, owner_id, beyond_rules"


ONCE = "must be sent only once"


ID = "must be an id of a resource that exists or existed"


LIMIT = "must be a whole number from 1 to 100"


def page(collection: Collection, uri: str) -> list[Any]:
    return list(collection.client.get(uri.removeprefix(BASE)).json[collection.kind.array])


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        ("limit=0", {"limit": LIMIT}),
        ("limit=101", {"limit": LIMIT}),
        ("limit=abc", {"limit": LIMIT}),
        ("limit=", {"limit": LIMIT}),
        ("limit=-1", {"limit": LIMIT}),
        ("limit=1.0", {"limit": LIMIT}),
        ("limit=%2B1", {"limit": LIMIT}),
        ("limit=%D9%A1", {"limit": LIMIT}),
        (f"limit={'9' * 5000}", {"limit": LIMIT}),
        ("before_id=", {"before_id": ID}),
        ("before_id=abc", {"before_id": ID}),
        (f"before_id=ak_{'0' * 26}", {"before_id": ID}),
        (f"before_id=ak_{'-' * 27}", {"before_id": ID}),
        ("limit=1&limit=1", {"limit": ONCE}),
        ("page=2", {"page": UNKNOWN}),
        ("Limit=2", {"Limit": UNKNOWN}),
        ("limit=0&before_id=x&page=2&page=3", {"before_id": ID, "limit": LIMIT, "page": ONCE}),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused_with_every_fault(
    admin: Client, query: str, errors: dict[str, str]
) -> None:
    assert_invalid(admin.get(f"/api_keys?{query}"), errors)


@each_kind
def test_every_list_checks_its_query(collection: Collection) -> None:
    field_names = ", ".join(collection.resource.endpoints()[0].query)
    rule = f"must be the id of an entry of this list, and begin with {collection.kind.prefix}_"
    answer = collection.client.get(f"{collection.path}?limit=0&page=2")
    assert_invalid(answer, {"limit": LIMIT, "page": f"is not accepted here; accepted: {field_names}"})
    for prefix in ("aaa", "zzz", f"{collection.kind.prefix}x", collection.kind.prefix[1:]):
        assert_invalid(collection.client.get(f"{collection.path}?before_id={ids.new(prefix)}"), {"before_id": rule})


@each_kind
def test_only_lists_take_a_query(collection: Collection) -> None:
    resource = collection.create()
    for endpoint in collection.endpoints_of_one():
        answer = collection.client.send(endpoint.method, f"{collection.address(endpoint, resource['id'])}?limit=1")
        assert_invalid(answer, {"limit": "is not accepted here; accepted: none"})
    assert collection.read(resource["id"]) == resource


@each_editable_kind
def test_a_creation_takes_no_query(collection: Collection) -> None:
    request, before = collection.body(), collection.entries()
    answer = collection.client.post(f"{collection.path}?dry_run=true", request)
    assert_invalid(answer, {"dry_run": "is not accepted here; accepted: none"})
    assert collection.entries() == before
