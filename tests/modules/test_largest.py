"""The largest value of each module: the API accepts it, and it takes no more than what is computed."""

import json
from collections.abc import Mapping
from typing import Any

from chalicelib.http.module import Module
from chalicelib.schema import sizes
from chalicelib.storage.records import items, table
from infra.build.openapi import budgets
from tests.modules import largest
from tests.modules.samples import each_module, on_a_holder
from tests.transports import Client


def count(value: Any) -> int:
    """Return the bytes that DynamoDB counts for a value."""
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case list():
            return 3 + sum(1 + count(child) for child in value)
        case Mapping():
            return 3 + sum(1 + len(name.encode()) + count(child) for name, child in value.items())
    return 1


@each_module
def test_the_largest_value_takes_about_what_is_computed(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    answer = admin.put(address, largest.make(module))
    assert answer.status == 200, (
        f"the largest value of {module.path} is refused: write one in largest.py: {answer.text}"
    )
    size = len(module.name) + 6 + sizes.measure_encoded(json.dumps(answer.json, separators=(",", ":")))
    computed = budgets.response_size(module)
    assert 0.5 * computed <= size, f"{module.path} takes {size:,} of {computed:,}: write a larger value in largest.py"
    assert size <= computed, f"{module.path} takes {size:,}, more than {computed:,}"


@each_module
def test_a_record_and_an_event_take_at_most_what_is_computed(admin: Client, module: Module) -> None:
    address = on_a_holder(admin, module)
    for enabled in (True, False):
        assert admin.put(address, {**largest.make(module), "enabled": enabled}).status == 200
    home, _, id = address.rpartition("/")[0].rpartition("/")
    item = table.read(items.scope(admin.account, home), id)
    assert item
    assert count({module.name: item.modules[module.name]}) <= budgets.record_size(module) + 4
    assert admin.delete(address).status == 204
    for event in admin.get("/audit_events?limit=3").json["audit_events"]:
        assert event["resource_id"] == id
        assert count(event["details"]) <= budgets.event_size(module) + 2 * count({"before": {}})
