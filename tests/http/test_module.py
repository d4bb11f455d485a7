"""What all modules have in common (SPEC 2.9, 4.8): replaced, read and deleted whole, on edges known or not."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.http.module import Module
from chalicelib.schema.models import model
from tests.modules.samples import SAMPLES, anywhere, each_module, on_a_holder
from tests.refusals import NO_TOKEN, assert_invalid, assert_not_found, assert_refused
from tests.transports import Answer, Client


def assert_unset(answer: Answer, module: Module) -> None:
    assert_refused(answer, 404, "not_found", f"The module {module.name} is not set.")


@each_module
def test_a_module_is_put_read_and_deleted_whole(admin: Client, module: Module) -> None:
    full, _ = SAMPLES[module.path]
    for address in (anywhere(module), on_a_holder(admin, module)):
        put = admin.put(address, full.request)
        assert (put.status, put.json) == (200, full.response)
        assert put.headers["content-type"] == "application/json"
        read = admin.get(address)
        assert (read.status, read.json) == (200, full.response)
        deleted = admin.delete(address)
        assert (deleted.status, deleted.text) == (204, "")
        assert_unset(admin.get(address), module)
        assert_unset(admin.delete(address), module)


@each_module
def test_a_replaced_module_keeps_nothing_of_what_it_was(admin: Client, module: Module) -> None:
    address, (full, least) = anywhere(module), SAMPLES[module.path]
    admin.put(address, full.request)
    assert admin.put(address, least.request).json == least.response
    assert admin.get(address).json == least.response


@each_module
def test_a_module_is_enabled_unless_it_says_otherwise(admin: Client, module: Module) -> None:
    address, request = anywhere(module), SAMPLES[module.path][1].request
    for fields, is_enabled in (({"enabled": False}, False), ({}, True), ({"enabled": None}, True)):
        assert admin.put(address, request | fields).json["enabled"] is is_enabled
        assert admin.get(address).json["enabled"] is is_enabled


@each_module
def test_whether_a_module_is_enabled_is_a_boolean(admin: Client, module: Module) -> None:
    address, (full, least) = anywhere(module), SAMPLES[module.path]
    admin.put(address, full.request)
    value: Any
    for value in (0, "true", []):
        answer = admin.put(address, {**least.request, "enabled": value})
        assert_invalid(answer, {"enabled": "must be true or false"})
    assert admin.get(address).json == full.response


@each_module
def test_an_unknown_field_is_named_with_the_known_ones(admin: Client, module: Module) -> None:
    address, (_, least) = anywhere(module), SAMPLES[module.path]
    rule = f"is not accepted here; accepted: {', '.join(model(module.shape).model_fields)}"
    assert_invalid(
        admin.put(address, {**least.request, "colour": "red", "module": {}}), {"colour": rule, "module": rule}
    )
    assert_unset(admin.get(address), module)


@each_module
def test_the_ids_of_the_path_may_stand_in_the_body(admin: Client, module: Module) -> None:
    address, (full, least) = on_a_holder(admin, module), SAMPLES[module.path]
    steps = address.split("/")
    own_id, edge = {"id": steps[-2]}, {"edge_id": steps[3]}
    for ids_ in (own_id, edge, {**own_id, **edge}):
        assert admin.put(address, {**least.request, **ids_}).json == least.response
        assert admin.put(address, {**ids_, "module": full.request}).json == full.response
    for other in ("", None, ids.new(steps[-2].partition("_")[0])):
        faults = dict.fromkeys(("id", "edge_id"), "must be the id in the path, or absent")
        for body in (least.request, {"module": least.request}):
            assert_invalid(admin.put(address, {**body, "id": other, "edge_id": other}), faults)
    assert admin.get(address).json == full.response


@each_module
def test_a_module_may_stand_in_an_object_of_its_own(admin: Client, module: Module) -> None:
    address, (full, least) = anywhere(module), SAMPLES[module.path]
    assert admin.put(address, {"module": full.request}).json == full.response
    assert admin.put(address, {"module": least.request}).json == least.response
    field_names = ", ".join(model(module.shape).model_fields)
    wrong = {**least.request, "enabled": 1, "colour": "red"}
    faults = {"enabled": "must be true or false", "colour": f"is not accepted here; accepted: {field_names}"}
    assert_invalid(admin.put(address, {"module": wrong}), {f"module.{name}": rule for name, rule in faults.items()})
    assert admin.get(address).json == least.response
    no_modules: tuple[Any, ...] = (None, [], "{}")
    for value in no_modules:
        details = admin.put(address, {"module": value}).json["details"]
        assert details["module"] == f"is not accepted here; accepted: {field_names}"


@each_module
def test_an_empty_body_is_an_empty_object(admin: Client, module: Module) -> None:
    address = anywhere(module)
    absent, empty = admin.put(address, None), admin.put(address, {})
    required = {name: "is required" for name, field in model(module.shape).model_fields.items() if field.is_required()}
    if required:
        assert_invalid(absent, required)
        assert_invalid(empty, required)
    else:
        assert (absent.status, absent.json) == (empty.status, empty.json) == (200, SAMPLES[module.path][1].response)


def list_malformed_paths(module: Module) -> list[tuple[str, str]]:
    """Return the module's path with each of its ids in turn of a form or kind that none has, and that id's place."""
    template, segments = module.path.split("/"), anywhere(module).split("/")
    other_ids = (ids.new("ak"), "edghts_short", "edghtsrt_" + "é" * 27)
    return [
        ("/".join([*segments[:index], other, *segments[index + 1 :]]), "/".join(template[:index]))
        for index in range(len(segments))
        if template[index].startswith("{")
        for other in other_ids
    ]


@each_module
def test_an_id_of_another_form_is_not_found(admin: Client, module: Module) -> None:
    for address, collection in list_malformed_paths(module):
        for method, body in (("PUT", SAMPLES[module.path][0].request), ("GET", None), ("DELETE", None)):
            answer = admin.send(method, address, body)
            assert_not_found(answer, collection)


@each_module
def test_another_accounts_module_looks_unset_and_stays_as_it_is(
    admin: Client, stranger: Client, module: Module
) -> None:
    address, (full, least) = on_a_holder(admin, module), SAMPLES[module.path]
    admin.put(address, full.request)
    assert_unset(stranger.get(address), module)
    assert_unset(stranger.delete(address), module)
    assert stranger.put(address, least.request).json == least.response
    assert admin.get(address).json == full.response
    stranger.delete(address)
    assert admin.get(address).json == full.response


@each_module
def test_a_module_can_be_used_by_whoever_has_a_key_and_by_nobody_else(
    member: Client, nobody: Client, module: Module
) -> None:
    address, (full, _) = anywhere(module), SAMPLES[module.path]
    assert member.put(address, full.request).json == full.response
    for method in ("PUT", "GET", "DELETE"):
        assert_refused(nobody.send(method, address, full.request), 401, "unauthenticated", NO_TOKEN)
    assert member.get(address).json == full.response


@each_module
def test_a_module_has_three_methods(admin: Client, module: Module) -> None:
    for method in ("POST", "PATCH", "HEAD", "OPTIONS"):
        answer = admin.send(method, anywhere(module))
        assert_refused(answer, 405, "method_not_allowed", "This path supports only DELETE, GET, PUT.")
        assert answer.headers["allow"] == "DELETE, GET, PUT"


@each_module
def test_a_module_shows_in_its_edge_or_route_and_null_where_it_is_unset(admin: Client, module: Module) -> None:
    full, _ = SAMPLES[module.path]
    address = on_a_holder(admin, module)
    parent = address.removesuffix(f"/{module.name}")
    unset: dict[str, Any] = admin.get(parent).json
    assert unset[module.name] is None
    admin.put(address, full.request)
    assert admin.get(parent).json == {**unset, module.name: full.response}
    assert admin.patch(parent, {"description": "d"}).json == {**unset, module.name: full.response, "description": "d"}
    admin.delete(address)
    assert admin.get(parent).json == {**unset, "description": "d"}


@each_module
def test_strict_references_need_an_edge_or_route_that_is_known(
    admin: Client, stranger: Client, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    unknown = [anywhere(module), on_a_holder(stranger, module)]
    for address in unknown:
        answer = admin.put(address, SAMPLES[module.path][0].request)
        holder_id = address.split("/")[-2]
        assert_refused(answer, 404, "not_found", f"There is no edge or route {holder_id} in this account.")
        assert_unset(admin.delete(address), module)
    monkeypatch.delenv("STRICT_REFERENCES")
    for address in unknown:
        assert_unset(admin.get(address), module)
