"""What creation, reading, changing and deleting have in common, for every kind of resource (SPEC 2.1, 4)."""

import re
from collections.abc import Iterator
from typing import Any

from chalicelib import clock, ids
from chalicelib.schema.models import model
from chalicelib.schema.shapes import Shape
from tests import samples
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.samples import Collection, each_editable_kind, each_kind

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
LONGEST = {"description": "é" * 127 + "a", "metadata": "🦊" * 1024}  # in bytes of UTF-8: 255 and 4096
TOO_LONG = {
    "description": "must be at most 255 bytes of UTF-8",
    "metadata": "must be at most 4096 bytes of UTF-8",
}


def list_fields(shape: type[Shape]) -> str:
    return ", ".join(model(shape).model_fields)


def test_every_kind_has_a_sample() -> None:
    has_none = {resource.kind.path for resource in samples.KINDS} - samples.BODIES.keys() - samples.BEGUN.keys()
    assert has_none == set(), "add a line to tests/samples.py"


def test_no_two_kinds_share_a_prefix_or_a_path() -> None:
    assert len({resource.kind.prefix for resource in samples.KINDS}) == len(samples.KINDS)
    assert len({resource.kind.path for resource in samples.KINDS}) == len(samples.KINDS)


@each_editable_kind
def test_a_creation_answers_201_with_what_reading_shows_afterwards(collection: Collection) -> None:
    request, before = collection.body(description="d", metadata='{"a": 1}'), clock.now()
    answer = collection.client.post(collection.path, request)
    assert (answer.status, answer.headers["content-type"]) == (201, "application/json")
    body = answer.json
    assert body["uri"] == f"http://localhost{collection.path}/{body['id']}"
    assert TIME.fullmatch(body["created_at"])
    assert before <= clock.parse(body["created_at"]) == ids.created_at(body["id"]) <= clock.now()
    read = collection.client.get(body["uri"].removeprefix("http://localhost"))
    assert (read.status, read.headers["content-type"]) == (200, "application/json")
    shown_once = {name for name, value in read.json.items() if value is None and body[name] is not None}
    assert {**body, **dict.fromkeys(shown_once)} == read.json
    assert (read.json["description"], read.json["metadata"]) == ("d", '{"a": 1}')


@each_kind
def test_every_address_in_an_answer_leads_somewhere_or_is_empty(collection: Collection) -> None:
    for address in addresses(collection.create()):
        assert address == "" or collection.client.get(address.removeprefix("http://localhost")).status == 200, address


def addresses(body: Any) -> Iterator[str]:
    """Yield the values of `uri`, `resource_uri` and the like at any depth of an answer."""
    if isinstance(body, dict):
        yield from (value for name, value in body.items() if name.endswith("uri"))
    if isinstance(body, dict | list):
        for inner in body.values() if isinstance(body, dict) else body:
            yield from addresses(inner)


@each_editable_kind
def test_unset_strings_are_shown_empty(collection: Collection) -> None:
    for unset in ({}, {"description": "", "metadata": ""}, {"description": None, "metadata": None}):
        resource = collection.create(**unset)
        assert (resource["description"], resource["metadata"]) == ("", "")


@each_editable_kind
def test_an_unknown_field_of_a_creation_is_named_with_the_known_ones(collection: Collection) -> None:
    request, before = collection.body(colour="red", ID="x"), collection.entries()
    rule = f"is not accepted here; accepted: {list_fields(collection.request('POST'))}"
    assert_invalid(collection.client.post(collection.path, request), {"colour": rule, "ID": rule})
    assert collection.entries() == before


@each_editable_kind
def test_the_longest_texts_in_bytes_are_kept_and_one_byte_more_refused(collection: Collection) -> None:
    resource = collection.create(**LONGEST)
    assert {name: resource[name] for name in LONGEST} == LONGEST
    longer = {name: text + "a" for name, text in LONGEST.items()}
    uri = f"{collection.path}/{resource['id']}"
    assert_invalid(collection.client.post(collection.path, collection.body(**longer)), TOO_LONG)
    assert_invalid(collection.client.patch(uri, longer), TOO_LONG)
    assert collection.read(resource["id"]) == resource
    collection.client.patch(uri, dict.fromkeys(LONGEST, ""))
    assert collection.client.patch(uri, LONGEST).json == collection.read(resource["id"]) == resource


@each_editable_kind
def test_descriptions_and_metadata_are_strings(collection: Collection) -> None:
    request, uri = collection.body(), f"{collection.path}/{collection.create()['id']}"
    errors = {"description": "must be a string", "metadata": "must be a string"}
    value: Any
    for value in (1, []):
        wrong = {"description": value, "metadata": value}
        assert_invalid(collection.client.post(collection.path, {**request, **wrong}), errors)
        assert_invalid(collection.client.patch(uri, wrong), errors)


@each_editable_kind
def test_a_change_sets_what_it_names_and_leaves_absent_fields_as_they_are(collection: Collection) -> None:
    resource = collection.create(description="d", metadata="m")
    id = {"id": resource["id"]}
    change: Any
    for change in (
        None,
        {},
        id,
        {"description": "new"},
        {**id, "metadata": "new"},
        {"description": ""},
        {"metadata": ""},
    ):
        resource |= change or {}
        answer = collection.client.patch(f"{collection.path}/{resource['id']}", change)
        assert (answer.status, answer.json) == (200, resource)
    assert collection.read(resource["id"]) == resource


@each_editable_kind
def test_a_change_may_not_name_another_id(collection: Collection) -> None:
    resource = collection.create()
    for id in ("", ids.new(collection.kind.prefix), None, 1, [resource["id"]]):
        answer = collection.client.patch(f"{collection.path}/{resource['id']}", {"id": id, "description": "new"})
        assert_invalid(answer, {"id": "must be the id in the path, or absent"})
    assert collection.read(resource["id"]) == resource


@each_editable_kind
def test_an_unknown_field_of_a_change_is_named_with_the_known_ones(collection: Collection) -> None:
    resource = collection.create()
    for unknown in ("2020-01-01T00:00:00Z", None):
        change = {"created_at": unknown, "description": "new"}
        answer = collection.client.patch(f"{collection.path}/{resource['id']}", change)
        assert_invalid(
            answer, {"created_at": f"is not accepted here; accepted: {list_fields(collection.request('PATCH'))}"}
        )
    assert collection.read(resource["id"]) == resource


@each_editable_kind
def test_a_deletion_answers_204_without_a_body_and_404_ever_after(collection: Collection) -> None:
    resource, sibling = collection.create(), collection.create()
    uri = f"{collection.path}/{resource['id']}"
    answer = collection.client.delete(uri)
    assert (answer.status, answer.text) == (204, "")
    for method in ("GET", "PATCH", "DELETE"):
        assert_not_found(collection.client.send(method, uri), collection.kind.path)
    assert_not_found(collection.client.patch(uri, {"description": "new"}), collection.kind.path)
    entries = collection.entries()
    assert sibling in entries
    assert resource["id"] not in [entry["id"] for entry in entries]


@each_kind
def test_an_id_that_names_nothing_or_has_another_form_is_not_found(collection: Collection) -> None:
    prefix, id = collection.kind.prefix, collection.create()["id"]
    assert re.fullmatch(rf"{prefix}_[0-9A-Za-z]{{27}}", id)
    ksuid = ids.strip_prefix(id)
    wrong_ids = (ksuid, id[:-1], f"{id}0", f"x{id}", f"{prefix}-{ksuid}", "%20", ids.new(prefix))
    for endpoint in collection.endpoints_of_one():
        for other in wrong_ids:
            assert_not_found(
                collection.client.send(endpoint.method, collection.address(endpoint, other)), collection.kind.path
            )


@each_kind
def test_what_a_kind_does_not_offer_is_405_with_what_it_does(collection: Collection) -> None:
    for path, uri in (
        (collection.kind.path, collection.path),
        (collection.kind.item_path, f"{collection.path}/{collection.create()['id']}"),
    ):
        served = sorted(endpoint.method for endpoint in collection.resource.endpoints() if endpoint.path == path)
        allowed = ", ".join(served)
        for method in {"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"} - {*served}:
            answer = collection.client.send(method, uri)
            assert_refused(answer, 405, "method_not_allowed", f"This path supports only {allowed}.")
            assert answer.headers["allow"] == allowed
