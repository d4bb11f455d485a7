"""Templates that change a table's indexes one by one: CloudFormation changes one index in each update of a stack."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from infra.deploy.templates import parse_template


def of(deployed: str, template: str) -> list[str]:
    """Return the templates to deploy one after the other. Each adds or removes one index, and the last is `template`.

    `deployed` is the template of the deployed stack, or "" if there is no stack.
    """
    if deployed in ("", template):
        return [template]
    target = parse_template(template)
    before, after = _indexes(parse_template(deployed)), _indexes(target)
    states = [dict(before)]
    for name in before.keys() - after.keys():
        states.append({other: index for other, index in states[-1].items() if other != name})
    for name in (name for name in after if name not in before):
        states.append({**states[-1], name: after[name]})
    return [*(_set_indexes(target, state) for state in states[1:-1]), template]


def _table(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of the table in a template, which has only one table."""
    (table,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::DynamoDB::Table"
    )
    properties: dict[str, Any] = table
    return properties


def _indexes(template: Mapping[str, Any]) -> dict[str, Any]:
    return {index["IndexName"]: index for index in _table(template).get("GlobalSecondaryIndexes", ())}


def _set_indexes(template: Mapping[str, Any], indexes: Mapping[str, Any]) -> str:
    """Return a template in which the table has only these indexes.

    The template defines only attributes that are keys, because DynamoDB refuses definitions of other attributes.
    """
    changed = copy.deepcopy(dict(template))
    table = _table(changed)
    keys = [*table["KeySchema"], *(key for index in indexes.values() for key in index["KeySchema"])]
    names = dict.fromkeys(key["AttributeName"] for key in keys)
    table["AttributeDefinitions"] = [{"AttributeName": name, "AttributeType": "S"} for name in names]
    table["GlobalSecondaryIndexes"] = [*indexes.values()]
    if not indexes:
        del table["GlobalSecondaryIndexes"]
    return json.dumps(changed)
