"""The table's global indexes. CloudFormation changes at most one per stack update."""

from collections.abc import Mapping
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from infra import CommandError
from infra.deploy import data_stack, stacks


def require_single_change(name: str) -> None:
    """Raise CommandError for a stack of 1.x, or if an update would change several indexes. Raises aws.AwsError."""
    deployed = stacks.template(data_stack.stack_of(name))
    if not deployed:
        return
    if not (before := names(yaml_parse(deployed))):
        raise CommandError(
            f"The stack {data_stack.stack_of(name)} is of 1.x: upgrade it to 2.0.0 first ('Upgrading' in"
            " infra/README.md)."
        )
    changed = before ^ names(yaml_parse(data_stack.TEMPLATE.read_text()))
    if len(changed) > 1:
        raise CommandError(
            f"This update of the stack {data_stack.stack_of(name)} would change {len(changed)} indexes of the table"
            f" ({', '.join(sorted(changed))}), and CloudFormation changes one at a time: upgrade to the version between"
            " the deployed one and this one first ('Upgrading' in infra/README.md)."
        )


def names(template: Mapping[str, Any]) -> set[str]:
    """Return the names of a template's global indexes."""
    tables = [it["Properties"] for it in template["Resources"].values() if it["Type"] == "AWS::DynamoDB::Table"]
    return {index["IndexName"] for table in tables for index in table.get("GlobalSecondaryIndexes", ())}
