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


def known(shape: type[Shape]) -> str:
    return ", ".join(model(shape).model_fields)


def test_every_kind_has_a_sample() -> None:
    has_none = {resource.kind.path for resource in samples.KINDS} - samples.BODIES.keys() - samples.BEGUN.keys()
    assert has_none == set(), "add a line to tests/samples.py"


def test_no_two_kinds_share_a_prefix_or_a_path() -> None:
    assert len({resource.kind.prefix for resource in samples.KINDS}) == len(samples.KINDS)
    assert len({resource.kind.path for resource in samples.KINDS}) == len(samples.KINDS)


@each_editable_kind
def test_a_creation_answers_201_with_what_reading_shows_afterwards(mine: Collection) -> None:
    request, before = mine.body(description="d", metadata='{"a": 1}'), clock.now()
    answer = mine.client.post(mine.path, request)
    assert (answer.status, answer.headers["content-type"]) == (201, "application/json")
    created = answer.json
    assert created["uri"] == f"http://localhost{mine.path}/{created['id']}"
    assert TIME.fullmatch(created["created_at"])
    assert before <= clock.parse(created["created_at"]) == ids.created_at(created["id"]) <= clock.now()
    read = mine.client.get(created["uri"].removeprefix("http://localhost"))
    assert (read.status, read.headers["content-type"]) == (200, "application/json")
    shown_once = {name for name, value in read.json.items() if value is None and created[name] is not None}
    assert {**created, **dict.fromkeys(shown_once)} == read.json
    assert (read.json["description"], read.json["metadata"]) == ("d", '{"a": 1}')


@each_kind
def test_every_address_in_an_answer_leads_somewhere_or_is_empty(mine: Collection) -> None:
    for address in addresses(mine.one()):
        assert address == "" or mine.client.get(address.removeprefix("http://localhost")).status == 200, address


def addresses(shown: Any) -> Iterator[str]:
    """Yield the values of `uri`, `resource_uri` and the like at any depth of an answer."""
    if isinstance(shown, dict):
        yield from (value for name, value in shown.items() if name.endswith("uri"))
    if isinstance(shown, dict | list):
        for inner in shown.values() if isinstance(shown, dict) else shown:
            yield from addresses(inner)


@each_editable_kind
def test_unset_strings_are_shown_empty(mine: Collection) -> None:
    for unset in ({}, {"description": "", "metadata": ""}, {"description": None, "metadata": None}):
        resource = mine.one(**unset)
        assert (resource["description"], resource["metadata"]) == ("", "")


@each_editable_kind
def test_an_unknown_field_of_a_creation_is_named_with_the_known_ones(mine: Collection) -> None:
    request, before = mine.body(colour="red", ID="x"), mine.entries()
    rule = f"is not accepted here; accepted: {known(mine.request('POST'))}"
    assert_invalid(mine.client.post(mine.path, request), {"colour": rule, "ID": rule})
    assert mine.entries() == before


@each_editable_kind
def test_the_longest_texts_in_bytes_are_kept_and_one_byte_more_refused(mine: Collection) -> None:
    resource = mine.one(**LONGEST)
    assert {name: resource[name] for name in LONGEST} == LONGEST
    longer = {name: text + "a" for name, text in LONGEST.items()}
    uri = f"{mine.path}/{resource['id']}"
    assert_invalid(mine.client.post(mine.path, mine.body(**longer)), TOO_LONG)
    assert_invalid(mine.client.patch(uri, longer), TOO_LONG)
    assert mine.read(resource["id"]) == resource
    mine.client.patch(uri, dict.fromkeys(LONGEST, ""))
    assert mine.client.patch(uri, LONGEST).json == mine.read(resource["id"]) == resource


@each_editable_kind
def test_descriptions_and_metadata_are_strings(mine: Collection) -> None:
    request, uri = mine.body(), f"{mine.path}/{mine.one()['id']}"
    errors = {"description": "must be a string", "metadata": "must be a string"}
    value: Any
    for value in (1, []):
        wrong = {"description": value, "metadata": value}
        assert_invalid(mine.client.post(mine.path, {**request, **wrong}), errors)
        assert_invalid(mine.client.patch(uri, wrong), errors)


@each_editable_kind
def test_a_change_sets_what_it_names_and_leaves_absent_fields_as_they_are(mine: Collection) -> None:
    resource = mine.one(description="d", metadata="m")
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
        answer = mine.client.patch(f"{mine.path}/{resource['id']}", change)
        assert (answer.status, answer.json) == (200, resource)
    assert mine.read(resource["id"]) == resource


@each_editable_kind
def test_a_change_may_not_name_another_id(mine: Collection) -> None:
    resource = mine.one()
    for id in ("", ids.new(mine.kind.prefix), None, 1, [resource["id"]]):
        answer = mine.client.patch(f"{mine.path}/{resource['id']}", {"id": id, "description": "new"})
        assert_invalid(answer, {"id": "must be the id in the path, or absent"})
    assert mine.read(resource["id"]) == resource


@each_editable_kind
def test_an_unknown_field_of_a_change_is_named_with_the_known_ones(mine: Collection) -> None:
    resource = mine.one()
    for unknown in ("2020-01-01T00:00:00Z", None):
        change = {"created_at": unknown, "description": "new"}
        answer = mine.client.patch(f"{mine.path}/{resource['id']}", change)
        assert_invalid(answer, {"created_at": f"is not accepted here; accepted: {known(mine.request('PATCH'))}"})
    assert mine.read(resource["id"]) == resource


@each_editable_kind
def test_a_deletion_answers_204_without_a_body_and_404_ever_after(mine: Collection) -> None:
    resource, kept = mine.one(), mine.one()
    uri = f"{mine.path}/{resource['id']}"
    answer = mine.client.delete(uri)
    assert (answer.status, answer.text) == (204, "")
    for method in ("GET", "PATCH", "DELETE"):
        assert_not_found(mine.client.send(method, uri), mine.kind.path)
    assert_not_found(mine.client.patch(uri, {"description": "new"}), mine.kind.path)
    entries = mine.entries()
    assert kept in entries
    assert resource["id"] not in [entry["id"] for entry in entries]


@each_kind
def test_an_id_that_names_nothing_or_has_another_form_is_not_found(mine: Collection) -> None:
    prefix, id = mine.kind.prefix, mine.one()["id"]
    assert re.fullmatch(rf"{prefix}_[0-9A-Za-z]{{27}}", id)
    ksuid = ids.strip_prefix(id)
    others = (ksuid, id[:-1], f"{id}0", f"x{id}", f"{prefix}-{ksuid}", "%20", ids.new(prefix))
    for endpoint in mine.endpoints_of_one():
        for other in others:
            assert_not_found(mine.client.send(endpoint.method, mine.address(endpoint, other)), mine.kind.path)


@each_kind
def test_what_a_kind_does_not_offer_is_405_with_what_it_does(mine: Collection) -> None:
    for path, uri in ((mine.kind.path, mine.path), (mine.kind.item_path, f"{mine.path}/{mine.one()['id']}")):
        served = sorted(endpoint.method for endpoint in mine.resource.endpoints() if endpoint.path == path)
        allowed = ", ".join(served)
        for method in {"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"} - {*served}:
            answer = mine.client.send(method, uri)
            assert_refused(answer, 405, "method_not_allowed", f"This path supports only {allowed}.")
            assert answer.headers["allow"] == allowed
