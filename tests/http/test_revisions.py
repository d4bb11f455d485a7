"""Revisions: an ETag of what was read, and a 304 for it. Conditions on changes are in test_etags.py."""

import pytest

from chalicelib.http.module import Module
from tests import gateway
from tests.modules.samples import SAMPLES, each_module, on_a_holder
from tests.samples import Collection, each_editable_kind
from tests.transports import Client


@pytest.fixture
def admin() -> Client:
    return gateway.admin()


@each_editable_kind
def test_whoever_has_it_is_not_sent_it_again(collection: Collection) -> None:
    address = f"{collection.path}/{collection.create()['id']}"
    read = collection.client.get(address)
    answer = collection.client.send("GET", address, If_None_Match=f'"other", W/{read.headers["etag"]}')
    assert (answer.status, answer.text, answer.headers["etag"]) == (304, "", read.headers["etag"])
    patch_answer = collection.client.patch(address, {"description": "new"})
    assert patch_answer.headers["etag"] != read.headers["etag"]
    again = collection.client.send("GET", address, If_None_Match=read.headers["etag"])
    assert (again.status, again.headers["etag"]) == (200, patch_answer.headers["etag"])


@each_module
def test_a_modules_change_is_one_of_its_edge_and_of_its_routes_edge(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    parent, full = address.rpartition("/")[0], SAMPLES[module.path][0].request
    above = [parent, *([parent.rpartition("/routes/")[0]] if "/routes/" in parent else [])]
    for change in (("PUT", full), ("DELETE", None)):
        before = {path: admin.get(path).headers["etag"] for path in above}
        assert admin.send(change[0], address, change[1]).status < 300
        for path, tag in before.items():
            assert admin.send("GET", path, If_None_Match=tag).status == 200
            assert admin.send("PATCH", path, {"description": "late"}, If_Match=tag).status == 412


@each_module
def test_a_module_that_is_known_is_not_sent_again(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    tag = admin.put(address, SAMPLES[module.path][0].request).headers["etag"]
    assert admin.send("GET", address, If_None_Match=tag).status == 304
