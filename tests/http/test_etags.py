"""Conditions on changes (RFC 9110, section 13.1): of every kind and module, the whole tag of what is there counts."""

from typing import Any

import pytest

from chalicelib.http.errors import PreconditionFailed
from chalicelib.http.etags import CHANGED, PRESENT, Conditions
from chalicelib.http.module import Module
from tests import gateway
from tests.modules.samples import OF_EDGES, SAMPLES, anywhere, each_module, on_a_holder
from tests.refusals import assert_refused
from tests.samples import Collection, each_editable_kind
from tests.transports import Answer, Client


@pytest.fixture
def admin() -> Client:
    return gateway.admin()


def locate_anywhere(_: Client, module: Module) -> str:
    return anywhere(module)


# Each module on an edge or route, and one of each kind of edge and route on one that no account has registered.
each_module_and_address = pytest.mark.parametrize(
    ("locate", "module"),
    [
        *(pytest.param(on_a_holder, module, id=module.path) for module in OF_EDGES),
        *(
            pytest.param(locate_anywhere, module, id=f"{module.path}, registered nowhere")
            for module in {module.home: module for module in OF_EDGES}.values()
        ),
    ],
)


def tag(answer: Answer) -> str:
    assert answer.status in (200, 201), answer.text
    return answer.headers["etag"]


def list_failing_headers(etag: str, *other_tags: str) -> list[str]:
    """Return headers If-Match that do not name what has a tag, given tags that it had before and that others have."""
    revision = etag.strip('"').partition("-")[0]
    made_up = [f'"{revision}-0000000000000000"', f'"{revision}"', '"*"', '""']
    malformed = [etag.strip('"'), etag.rstrip('"'), f"*, {etag}", "nothing", '"']
    return [*other_tags, *made_up, *malformed, f"W/{etag}", ", ".join([*other_tags, *made_up])]


def list_matching_headers(etag: str, *other_tags: str) -> list[str]:
    """Return headers If-Match that name what has a tag."""
    return [etag, "*", ",".join([*other_tags, '"a, b"', etag]), f", {etag} ,\tW/{etag}"]


def assert_failed(answer: Answer, msg: str = CHANGED) -> None:
    assert_refused(answer, 412, "precondition_failed", msg)


@each_editable_kind
def test_a_resource_is_changed_and_deleted_under_its_present_tag_alone(collection: Collection) -> None:
    first, another = (collection.client.post(collection.path, collection.body()) for _ in range(2))
    address = f"{collection.path}/{first.json['id']}"
    answer = collection.client.send("PATCH", address, {"description": "new"}, If_Match=tag(first))
    other_tags = [tag(first), tag(another)]
    for header in list_failing_headers(tag(answer), *other_tags):
        assert_failed(collection.client.send("PATCH", address, {"description": "late"}, If_Match=header))
        assert_failed(collection.client.send("DELETE", address, If_Match=header))
    etag = tag(collection.client.get(address))
    assert etag == tag(answer)
    for number in range(len(list_matching_headers(etag))):
        header = list_matching_headers(etag, *other_tags)[number]
        etag = tag(collection.client.send("PATCH", address, {"description": f"{number}"}, If_Match=header))
    assert collection.client.send("DELETE", address, If_Match=etag).status == 204
    assert collection.client.send("PATCH", address, {}, If_Match="*").status == 404


@each_module_and_address
def test_a_module_is_replaced_and_deleted_under_its_present_tag_alone(
    admin: Client, module: Module, locate: Any
) -> None:
    full, least = (sample.request for sample in SAMPLES[module.path])
    try_each_header(admin, locate(admin, module), on_a_holder(admin, module), full, least)


def test_a_policy_is_replaced_and_deleted_under_its_present_tag_alone(admin: Client) -> None:
    path = "/ssh_certificate_authorities"
    address, elsewhere = (f"{path}/{admin.create(path, {})['id']}/policy" for _ in range(2))
    try_each_header(admin, address, elsewhere, {"user": {"max_lifetime": 60}}, {})


def try_each_header(admin: Client, address: str, elsewhere: str, full: Any, least: Any) -> None:
    """Put and delete a module at an address under each header If-Match, beside one that is elsewhere."""
    assert_failed(admin.send("PUT", address, full, If_Match="*"))
    other_tags = [tag(admin.put(module_address, full)) for module_address in (address, elsewhere)]
    etag = tag(admin.send("PUT", address, least, If_Match=other_tags[0]))
    for header in list_failing_headers(etag, *other_tags)[:4]:  # kinds are tried with all headers
        assert_failed(admin.send("PUT", address, full, If_Match=header))
        assert_failed(admin.send("DELETE", address, If_Match=header))
    assert tag(admin.get(address)) == etag
    for number in range(len(list_matching_headers(etag))):
        etag = tag(
            admin.send(
                "PUT", address, (full, least)[number % 2], If_Match=list_matching_headers(etag, *other_tags)[number]
            )
        )
    assert admin.send("DELETE", address, If_Match=etag).status == 204
    assert admin.send("DELETE", address, If_Match="*").status == 404


@each_module_and_address
def test_no_tag_comes_back_for_a_module_that_was_deleted(admin: Client, module: Module, locate: Any) -> None:
    address = locate(admin, module)
    full, least = (sample.request for sample in SAMPLES[module.path])
    earlier: list[str] = []
    for request in (full, least, full, full, least):
        etag = tag(admin.put(address, request))
        assert etag not in earlier
        for header in earlier:
            assert_failed(admin.send("PUT", address, least, If_Match=header))
            assert_failed(admin.send("DELETE", address, If_Match=header))
        earlier.append(etag)
        assert admin.send("DELETE", address, If_Match=etag).status == 204


@each_module_and_address
def test_a_module_is_put_only_where_there_is_none(admin: Client, module: Module, locate: Any) -> None:
    address = locate(admin, module)
    full, least = (sample.request for sample in SAMPLES[module.path])
    etag = tag(admin.send("PUT", address, full, If_None_Match="*"))
    for header in ("*", etag, f'"other", W/{etag}'):
        assert_failed(admin.send("PUT", address, least, If_None_Match=header), PRESENT)
    assert admin.get(address).json == SAMPLES[module.path][0].response
    assert admin.send("PUT", address, least, If_None_Match='"other"').status == 200
    admin.delete(address)
    assert admin.send("PUT", address, full, If_None_Match="*").status == 200


def test_an_edge_that_shows_another_state_of_its_routes_has_another_tag(admin: Client) -> None:
    edge = f"/edges/https/{admin.create('/edges/https', {})['id']}"
    before = tag(admin.get(edge))
    admin.create(f"{edge}/routes", {"match_type": "exact_path", "match": "/"})
    assert_failed(admin.send("PATCH", edge, {"description": "late"}, If_Match=before))


NOW = '"3-0123456789abcdef"'


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "present", "holds"),
    [
        (None, None, NOW, True),
        (None, None, None, True),
        (NOW, None, NOW, True),
        (NOW, None, None, False),
        ("*", None, NOW, True),
        ("*", None, None, False),
        ("", None, NOW, False),
        (" , ", None, NOW, False),
        (f"W/{NOW}", None, NOW, False),
        (None, "*", NOW, False),
        (None, "*", None, True),
        (None, NOW, NOW, False),
        (None, f"W/{NOW}", NOW, False),
        (None, '"other"', NOW, True),
        (None, "", NOW, True),
        (NOW, "*", NOW, False),
        ("*", '"other"', NOW, True),
    ],
)
def test_conditions_hold_as_the_rfc_says(
    if_match: str | None, if_none_match: str | None, present: str | None, holds: bool
) -> None:
    conditions = Conditions(if_match, if_none_match)
    if holds:
        conditions.check(present)
    else:
        with pytest.raises(PreconditionFailed):
            conditions.check(present)


@each_module
def test_two_modules_that_say_the_same_have_different_tags(admin: Client, module: Module) -> None:
    full = SAMPLES[module.path][0].request
    first_tag, other = (tag(admin.put(on_a_holder(admin, module), full)) for _ in range(2))
    assert first_tag != other
