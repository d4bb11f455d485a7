"""Updates of a table's indexes: one in each update of the stack."""

import json
from typing import Any

import pytest

from infra.deploy import data_stack, index_steps
from infra.deploy.templates import parse_template

TEMPLATE = data_stack.TEMPLATE.read_text()


def with_indexes(*names: str) -> str:
    """Return the template with these indexes only."""
    template = parse_template(TEMPLATE)
    table = template["Resources"]["Table"]["Properties"]
    table["GlobalSecondaryIndexes"] = [
        {"IndexName": name, "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}]} for name in names
    ]
    return json.dumps(template)


def read_indexes(template: str) -> tuple[set[str], set[str]]:
    """Return the names of the indexes, and of the attributes that are defined without being a key of the table."""
    table: dict[str, Any] = parse_template(template)["Resources"]["Table"]["Properties"]
    defined = {attribute["AttributeName"] for attribute in table["AttributeDefinitions"]}
    return {index["IndexName"] for index in table.get("GlobalSecondaryIndexes", ())}, defined - {"scope", "id"}


@pytest.mark.parametrize(
    ("before", "after", "between"),
    [
        ((), ("a",), []),
        (("a",), ("a", "b"), []),
        (("a",), ("a",), []),
        ((), ("a", "b", "c"), [{"a"}, {"a", "b"}]),
        (("a",), ("b",), [set()]),
        (("a", "b"), ("b", "c"), [{"b"}]),
    ],
)
def test_each_update_changes_one_index(
    before: tuple[str, ...], after: tuple[str, ...], between: list[set[str]]
) -> None:
    *steps, last = index_steps.of(with_indexes(*before), with_indexes(*after))
    assert last == with_indexes(*after)
    assert [read_indexes(step) for step in steps] == [(names, names) for names in between]


def test_a_new_stack_has_all_indexes_at_once() -> None:
    assert index_steps.of("", TEMPLATE) == [TEMPLATE]
