"""Audit events show of a module what its `AUDITED` names, and nothing else."""

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from chalicelib import modules
from chalicelib.model import changes
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.base.records import Stored, StoredModule
from chalicelib.model.edges.modules import StoredProvider
from chalicelib.model.ssh.policies import PolicyBounds
from chalicelib.storage.records.items import Item

SECRET = "Bearer hunter2"
STORED = sorted({module.stored for module in modules.ALL}, key=lambda it: it.__name__)


@dataclass(frozen=True, kw_only=True)
class Header(Stored):
    name: str
    value: str

    AUDITED = ("name",)


@dataclass(frozen=True, kw_only=True)
class Headers(StoredModule):
    first: Header
    others: dict[str, Header] = field(default_factory=dict)
    note: str = ""

    AUDITED = ("enabled", "first", "others")


def test_only_declared_fields_are_shown_at_every_depth() -> None:
    secret = {"name": "authorization", "value": SECRET}
    module = Headers.of({"first": secret, "others": {"a": secret}, "note": SECRET})
    name = {"name": "authorization"}
    assert module.audited_fields() == {"enabled": True, "first": name, "others": {"a": name}}


@pytest.mark.parametrize("form", [*STORED, StoredProvider, PolicyBounds], ids=lambda it: it.__name__)
def test_a_field_that_a_module_gains_is_not_shown(form: type[Stored]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Newer(form):  # type: ignore[misc, valid-type]
        gained: str = SECRET

    values: dict[str, Any] = {
        it.name: {} if it.name == "provider" else [] for it in fields(form) if it.name in REQUIRED
    }
    shown = Newer(**{**values, **({"value": "{}"} if form.__name__ == "TrafficPolicyModule" else {})}).audited_fields()
    assert {*form.AUDITED} == {*shown}
    assert SECRET not in json.dumps(shown, default=str)


REQUIRED = ("provider", "certificate_authority_ids")


def test_an_event_shows_nothing_of_an_unknown_module() -> None:
    edge = Item("acct_1#/edges/tcp", "edgtcp_1", {}, modules={"of_the_future": {"value": SECRET}})
    change = changes.Change(OPERATOR).put(replace(edge, body={"hostports": []}))
    assert SECRET not in json.dumps([event.to_record() for event in change.events], default=str)
    assert kinds.stored_type_of_module("of_the_future") is Stored


def test_a_patch_of_a_header_shows_no_value() -> None:
    before: Any = Headers.of({"first": {"name": "a", "value": SECRET}})
    after: Any = replace(before, first=replace(before.first, value="Bearer hunter3"))
    assert before.audited_fields() == after.audited_fields()
