"""What audit events tell: values by their dotted paths, before and after, never what is sealed or long."""

import json
from typing import Any

import pytest

from chalicelib import modules
from chalicelib.http.resource import Resource
from chalicelib.model.audit import details, trail
from chalicelib.model.base import kinds
from tests.samples import each_kind

LONG = ["bind:" + "x" * 200] * 30


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({}, {}),
        ({"scopes": ["*"], "expires_at": None, "owner_id": ""}, {"scopes": ["*"]}),
        ({"acl": []}, {"acl": []}),  # without rules it lets everything
        ({"active": False, "max": 60}, {"active": "false", "max": "60"}),
        ({"user": {"max_lifetime": 60, "allowed_principals": None}}, {"user.max_lifetime": "60"}),
        ({"provider": {"github": {"client_secret": b"sealed"}}}, {"provider.github.client_secret": "(secret)"}),
        ({"client_secret": b""}, {}),
        ({"acl": LONG}, {"acl": details.digest(json.dumps(LONG))}),
    ],
)
def test_what_is_made_or_removed_is_told_by_paths(details: dict[str, Any], expected: dict[str, Any]) -> None:
    assert trail.details_of(details) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"before": {"b": "2"}, "after": {"b": "3"}}),
        ({}, {"labels": {"app": "web"}}, {"before": {}, "after": {"labels.app": "web"}}),
        ({"user": {"max": 60}}, {"user": None}, {"before": {"user.max": "60"}, "after": {}}),
        ({"secret": b"old"}, {"secret": b"new"}, {"before": {"secret": "(secret)"}, "after": {"secret": "(secret)"}}),
    ],
)
def test_a_change_is_told_by_what_differs(
    before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert trail.details_between(before, after) == expected


@each_kind
def test_the_form_of_each_kind_is_the_one_that_is_stored(resource: Resource) -> None:
    if resource.kind is not kinds.TUNNELS:  # whose two forms one stands for
        assert resource.kind.stored_type is resource.stored
        assert [kinds.find_module_type(module.name) for module in resource.modules] == [
            module.stored for module in resource.modules
        ]


def test_the_form_of_each_module_is_the_one_that_is_stored() -> None:
    assert [kinds.find_module_type(module.name) for module in modules.load_all()] == [
        module.stored for module in modules.load_all()
    ]
