"""Revisions: an ETag on what was read, a 304 for who has it, a 412 for who would overwrite what they have not seen."""

import pytest

from chalicelib.http.etags import CHANGED
from chalicelib.http.module import Module
from tests import gateway
from tests.modules.samples import SAMPLES, each_module, on_a_holder
from tests.refusals import assert_refused
from tests.samples import Collection, each_editable_kind
from tests.transports import Client


@pytest.fixture
def admin() -> Client:
    return gateway.admin()


@each_editable_kind
def test_whoever_has_it_is_not_sent_it_again(mine: Collection) -> None:
    address = f"{mine.path}/{mine.one()['id']}"
    read = mine.client.get(address)
    known = mine.client.send("GET", address, If_None_Match=f'"other", W/{read.headers["etag"]}')
    assert (known.status, known.text, known.headers["etag"]) == (304, "", read.headers["etag"])
    changed = mine.client.patch(address, {"description": "new"})
    assert changed.headers["etag"] != read.headers["etag"]
    again = mine.client.send("GET", address, If_None_Match=read.headers["etag"])
    assert (again.status, again.headers["etag"]) == (200, changed.headers["etag"])


@each_editable_kind
def test_of_two_writers_with_one_etag_the_second_is_refused(mine: Collection) -> None:
    admin, address = mine.client, f"{mine.path}/{mine.one()['id']}"
    tag = admin.get(address).headers["etag"]
    first = admin.send("PATCH", address, {"description": "first"}, If_Match=tag)
    assert first.status == 200
    for method, body in (("PATCH", {"description": "second"}), ("DELETE", None)):
        for seen in (tag, f"W/{tag}"):
            assert_refused(admin.send(method, address, body, If_Match=seen), 412, "precondition_failed", CHANGED)
    assert admin.get(address).json == first.json
    latest = admin.send("PATCH", address, {"description": "third"}, If_Match="*")
    assert latest.status == 200
    assert admin.send("DELETE", address, If_Match=latest.headers["etag"]).status == 204


@each_module
def test_a_modules_change_is_one_of_its_edge_and_of_its_routes_edge(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    holder, full = address.rpartition("/")[0], SAMPLES[module.path][0].request
    above = [holder, *([holder.rpartition("/routes/")[0]] if "/routes/" in holder else [])]
    for change in (("PUT", full), ("DELETE", None)):
        before = {place: admin.get(place).headers["etag"] for place in above}
        assert admin.send(change[0], address, change[1]).status < 300
        for place, tag in before.items():
            assert admin.send("GET", place, If_None_Match=tag).status == 200
            assert admin.send("PATCH", place, {"description": "late"}, If_Match=tag).status == 412


@each_module
def test_a_module_has_an_etag_of_its_own(admin: Client, module: Module) -> None:
    address, (full, least) = on_a_holder(admin, module), SAMPLES[module.path]
    tag = admin.put(address, full.request).headers["etag"]
    assert admin.get(address).headers["etag"] == tag
    assert admin.send("GET", address, If_None_Match=tag).status == 304
    assert admin.send("PUT", address, least.request, If_Match=tag).status == 200
    assert_refused(admin.send("PUT", address, full.request, If_Match=tag), 412, "precondition_failed", CHANGED)
    assert_refused(admin.send("DELETE", address, If_Match=tag), 412, "precondition_failed", CHANGED)
    assert admin.get(address).json == least.response


def test_a_tag_that_nobody_gave_is_no_present_one(admin: Client) -> None:
    address = f"/backends/weighted/{admin.create('/backends/weighted', {})['id']}"
    admin.patch(address, {"description": "new"})
    for header in ('"', "nothing", '"-"', '"1'):
        assert admin.send("PATCH", address, {"description": "x"}, If_Match=header).status == 412
    assert admin.send("PATCH", address, {"description": "x"}, If_Match="").status == 200
