"""Audit events show of a module what its `AUDITED` names, and nothing else."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from chalicelib.model import changes
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.base.records import Stored, StoredModule
from chalicelib.model.edges.modules.oauth import StoredProvider
from chalicelib.model.ssh.policies import PolicyBounds
from chalicelib.storage.records.items import Item

SECRET = "Bearer hunter2"
STORED = sorted({*map(kinds.find_module_type, kinds.MODULES)}, key=lambda stored_type: stored_type.__name__)


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


@pytest.mark.parametrize("form", [*STORED, StoredProvider, PolicyBounds], ids=lambda stored_type: stored_type.__name__)
def test_a_field_that_a_module_gains_is_not_shown(form: type[Stored]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Newer(form):  # type: ignore[misc, valid-type]
        gained: str = SECRET

    record = _fill(form)
    required = [
        attribute.name for attribute in fields(form) if attribute.default is attribute.default_factory is MISSING
    ]
    audit_fields = Newer.of({name: record[name] for name in required}).audited_fields()
    assert {*form.AUDITED} == {*audit_fields}
    assert SECRET not in json.dumps(audit_fields, default=str)


def test_an_event_shows_nothing_of_an_unknown_module() -> None:
    edge = Item("acct_1#/edges/tcp", "edgtcp_1", {}, modules={"of_the_future": {"value": SECRET}})
    change = changes.Change(OPERATOR).put(replace(edge, body={"hostports": []}))
    assert SECRET not in json.dumps([event.to_record() for event in change.events], default=str)
    assert kinds.find_module_type("of_the_future") is Stored


def test_a_patch_of_a_header_shows_no_value() -> None:
    before: Any = Headers.of({"first": {"name": "a", "value": SECRET}})
    after: Any = replace(before, first=replace(before.first, value="Bearer hunter3"))
    assert before.audited_fields() == after.audited_fields()


def _fill(form: type[Stored], path: str = "") -> dict[str, Any]:
    """Return a record with its own secret in every field that can hold a text, number or bytes."""
    hints = get_type_hints(form)
    return {attribute.name: _value(hints[attribute.name], f"{path}.{attribute.name}") for attribute in fields(form)}


def _value(hint: Any, path: str) -> Any:
    origin, arguments = get_origin(hint), [argument for argument in get_args(hint) if argument is not NoneType]
    if origin in (Union, UnionType):
        return _value(arguments[0], path)
    if origin is Literal:
        return arguments[0]
    if origin is list:
        return [_value(arguments[0], path)]
    if origin in (dict, Mapping):
        return {_secret(path) if arguments[1] is str else "github": _value(arguments[1], path)}
    if isinstance(hint, type) and issubclass(hint, Stored):
        return _fill(hint, path)
    texts = {str: _secret(path), bytes: _secret(path).encode(), bool: True, int: int(_secret(path)[1:])}
    return texts[hint]


def _secret(path: str) -> str:
    return f"s{zlib.crc32(path.encode())}"


def _paths(form: type[Stored], path: str = "") -> dict[str, bool]:
    """Return the paths of all fields, and whether events show them."""
    paths: dict[str, bool] = {}
    for name, hint in get_type_hints(form).items():
        if name in {attribute.name for attribute in fields(form)}:
            inner = next(
                (
                    candidate
                    for candidate in _types(hint)
                    if isinstance(candidate, type) and issubclass(candidate, Stored)
                ),
                None,
            )
            is_shown = name in form.AUDITED and bytes not in _types(hint)
            inner_paths = _paths(inner, f"{path}.{name}") if inner else {f"{path}.{name}": True}
            paths |= {inner_path: shows and is_shown for inner_path, shows in inner_paths.items()}
    return paths


def _types(hint: Any) -> list[Any]:
    return [hint, *(inner for argument in get_args(hint) for inner in _types(argument))]


@pytest.mark.parametrize("name", sorted(kinds.MODULES))
def test_no_event_shows_another_field_of_a_module(name: str) -> None:
    form = kinds.find_module_type(name)
    item = Item("acct_1#/edges/tcp", "edgtcp_1", {"hostports": []}, modules={name: _fill(form)})
    empty, change = replace(item, modules={}), changes.Change(OPERATOR)
    events = [
        *change.put(item).events,
        *change.rewrite(empty, lambda _: item, verb="replace", module=name).events,
        *change.rewrite(item, lambda _: empty, verb="delete", module=name).events,
        *change.rewrite(empty, lambda _: item).events,
        *change.remove(item).events,
    ]
    assert len(events) == 5
    text = json.dumps([event.to_record() for event in events], default=repr)
    hidden = {path for path, is_shown in _paths(form).items() if not is_shown} | ALWAYS_HIDDEN.get(name, set())
    assert {path for path in hidden if _secret(path)[1:] in text} == set()


ALWAYS_HIDDEN = {"traffic_policy": {".value"}}  # events show its digest


def test_a_field_without_a_declaration_would_be_found_in_an_event() -> None:
    assert _paths(Headers) == {
        ".enabled": True,
        ".first.name": True,
        ".first.value": False,
        ".others.name": True,
        ".others.value": False,
        ".note": False,
    }
    filled = json.dumps(_fill(Headers))
    assert all(_secret(path) in filled for path in _paths(Headers) if path != ".enabled")
