"""Conditions on changes (RFC 9110, section 13.1): of every kind and module, the whole tag of what is there counts."""

from typing import Any

import pytest

from chalicelib.http.errors import PreconditionFailed
from chalicelib.http.etags import CHANGED, PRESENT, Conditions
from chalicelib.http.module import Module
from tests import gateway
from tests.modules.samples import SAMPLES, anywhere, each_module, on_a_holder
from tests.refusals import assert_refused
from tests.samples import Collection, each_editable_kind
from tests.transports import Answer, Client


@pytest.fixture
def admin() -> Client:
    return gateway.admin()


each_place = pytest.mark.parametrize(
    "place", [on_a_holder, lambda _, module: anywhere(module)], ids=["here", "registered nowhere"]
)


def tag(answer: Answer) -> str:
    assert answer.status in (200, 201), answer.text
    return answer.headers["etag"]


def failing(own: str, *others: str) -> list[str]:
    """Return headers If-Match that do not name what has a tag, given tags that it had before and that others have."""
    revision = own.strip('"').partition("-")[0]
    made_up = [f'"{revision}-0000000000000000"', f'"{revision}"', '"*"', '""']
    malformed = [own.strip('"'), own.rstrip('"'), f"*, {own}", "nothing", '"']
    return [*others, *made_up, *malformed, f"W/{own}", ", ".join([*others, *made_up])]


def holding(own: str, *others: str) -> list[str]:
    """Return headers If-Match that name what has a tag."""
    return [own, "*", ",".join([*others, '"a, b"', own]), f", {own} ,\tW/{own}"]


def assert_failed(answer: Answer, msg: str = CHANGED) -> None:
    assert_refused(answer, 412, "precondition_failed", msg)


@each_editable_kind
def test_a_resource_is_changed_and_deleted_under_its_present_tag_alone(mine: Collection) -> None:
    made, another = (mine.client.post(mine.path, mine.body()) for _ in range(2))
    address = f"{mine.path}/{made.json['id']}"
    changed = mine.client.send("PATCH", address, {"description": "new"}, If_Match=tag(made))
    others = [tag(made), tag(another)]
    for header in failing(tag(changed), *others):
        assert_failed(mine.client.send("PATCH", address, {"description": "late"}, If_Match=header))
        assert_failed(mine.client.send("DELETE", address, If_Match=header))
    own = tag(mine.client.get(address))
    assert own == tag(changed)
    for number in range(len(holding(own))):
        header = holding(own, *others)[number]
        own = tag(mine.client.send("PATCH", address, {"description": f"{number}"}, If_Match=header))
    assert mine.client.send("DELETE", address, If_Match=own).status == 204
    assert mine.client.send("PATCH", address, {}, If_Match="*").status == 404


@each_module
@each_place
def test_a_module_is_replaced_and_deleted_under_its_present_tag_alone(
    admin: Client, module: Module, place: Any
) -> None:
    full, least = (sample.request for sample in SAMPLES[module.path])
    try_each_header(admin, place(admin, module), on_a_holder(admin, module), full, least)


def test_a_policy_is_replaced_and_deleted_under_its_present_tag_alone(admin: Client) -> None:
    path = "/ssh_certificate_authorities"
    address, elsewhere = (f"{path}/{admin.create(path, {})['id']}/policy" for _ in range(2))
    try_each_header(admin, address, elsewhere, {"user": {"max_lifetime": 60}}, {})


def try_each_header(admin: Client, address: str, elsewhere: str, full: Any, least: Any) -> None:
    """Put and delete a module at an address under each header If-Match, beside one that is elsewhere."""
    assert_failed(admin.send("PUT", address, full, If_Match="*"))
    others = [tag(admin.put(it, full)) for it in (address, elsewhere)]
    own = tag(admin.send("PUT", address, least, If_Match=others[0]))
    for header in failing(own, *others):
        assert_failed(admin.send("PUT", address, full, If_Match=header))
        assert_failed(admin.send("DELETE", address, If_Match=header))
    assert tag(admin.get(address)) == own
    for number in range(len(holding(own))):
        own = tag(admin.send("PUT", address, (full, least)[number % 2], If_Match=holding(own, *others)[number]))
    assert admin.send("DELETE", address, If_Match=own).status == 204
    assert admin.send("DELETE", address, If_Match="*").status == 404


@each_module
@each_place
def test_no_tag_comes_back_for_a_module_that_was_deleted(admin: Client, module: Module, place: Any) -> None:
    address = place(admin, module)
    full, least = (sample.request for sample in SAMPLES[module.path])
    earlier: list[str] = []
    for request in (full, least, full, full, least):
        own = tag(admin.put(address, request))
        assert own not in earlier
        for header in earlier:
            assert_failed(admin.send("PUT", address, least, If_Match=header))
            assert_failed(admin.send("DELETE", address, If_Match=header))
        earlier.append(own)
        assert admin.send("DELETE", address, If_Match=own).status == 204


@each_module
@each_place
def test_a_module_is_put_only_where_there_is_none(admin: Client, module: Module, place: Any) -> None:
    address = place(admin, module)
    full, least = (sample.request for sample in SAMPLES[module.path])
    own = tag(admin.send("PUT", address, full, If_None_Match="*"))
    for header in ("*", own, f'"other", W/{own}'):
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
    one, other = (tag(admin.put(on_a_holder(admin, module), full)) for _ in range(2))
    assert one != other
