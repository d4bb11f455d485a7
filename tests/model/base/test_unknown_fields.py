"""What a newer version stored survives every writer: unknown fields, modules and attributes."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock
from chalicelib.model.names import proof_checks
from chalicelib.model.names.proofs import CheckResult, apply_check
from tests.modules.samples import OF_EDGES, SAMPLES, on_a_holder
from tests.records import put, stored
from tests.samples import Collection, each_editable_kind
from tests.transports import Client

FIELD, MODULE, ATTRIBUTE = {"future": {"a": ["b"]}}, {"of_the_future": {"enabled": True}}, {"newer": "kept"}


def extend(id: str) -> None:
    """Give a record, its modules and their inner records what a newer version may store."""
    record = stored(id)
    parts = {name: _extended(module) for name, module in record.get("parts", {}).items()}
    put({**record, **ATTRIBUTE, "body": _extended(record["body"]), "parts": {**parts, **MODULE}})


def _extended(record: dict[str, Any]) -> dict[str, Any]:
    inner = {name: _extended(record[name]) for name in ("proof", "user", "host") if record.get(name)}
    if providers := record.get("provider"):
        inner["provider"] = {name: it and _extended(it) for name, it in providers.items()}
    return {**record, **inner, **FIELD}


def assert_extended(id: str) -> dict[str, Any]:
    record = stored(id)
    assert record.items() >= ATTRIBUTE.items()
    assert record["parts"].items() >= MODULE.items()
    assert _extended(record["body"]) == record["body"]
    parts = {name: module for name, module in record["parts"].items() if name not in MODULE}
    assert {name: _extended(module) for name, module in parts.items()} == parts
    return record


@each_editable_kind
def test_they_survive_a_patch(admin: Client, resource: Any) -> None:
    collection = Collection.of(admin, resource)
    id = collection.one()["id"]
    extend(id)
    assert admin.patch(f"{collection.path}/{id}", {"description": "changed"}).status == 200
    assert assert_extended(id)["body"]["description"] == "changed"


@pytest.mark.parametrize("module", OF_EDGES, ids=lambda module: module.path)
def test_they_survive_a_replaced_and_a_deleted_module(admin: Client, module: Any) -> None:
    full, least = SAMPLES[module.path]
    path = on_a_holder(admin, module)
    id = path.split("/")[-2]
    assert admin.put(path, full.request).status == 200
    extend(id)
    request = full.request if "provider" in full.request else least.request
    assert admin.put(path, {**request, "enabled": not full.request.get("enabled", True)}).status == 200
    assert_extended(id)
    assert admin.delete(path).status == 204
    assert_extended(id)


def test_they_survive_what_the_operator_changes(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "b"})["id"]
    for id in (admin.account, admin.user, bot):
        extend(id)
    operator.main(["accounts", "limits", admin.account, "--only-reserved"])
    operator.main(["accounts", "disable", admin.account])
    operator.main(["accounts", "enable", admin.account])
    operator.main(["bots", "disable", admin.account, bot])
    assert assert_extended(admin.account)["body"]["only_reserved"] is True
    assert assert_extended(bot)["body"]["active"] is False
    assert_extended(admin.user)


def test_they_survive_verify_and_the_proof_of_a_domain(admin: Client) -> None:
    id = admin.create("/reserved_domains", {"domain": "a.example.com"})["id"]
    extend(id)
    assert admin.post(f"/reserved_domains/{id}/verify", {}).status == 202
    assert_extended(id)
    (due,) = proof_checks.find_due(clock.seconds(), 10)
    claimed = proof_checks.claim(due, until=clock.seconds() + 60)
    assert claimed
    assert proof_checks.record(claimed, apply_check(claimed.proof, CheckResult("present"), clock.seconds()))
    assert assert_extended(id)["body"]["proof"]["status"] == "verified"
