"""The global indexes of the DynamoDB table. Version 1.x of this service deployed a data stack without such indexes."""

from collections.abc import Mapping
from typing import Any

from infra import CommandError
from infra.deploy import data_stack, stacks
from infra.deploy.templates import parse_template


def require_supported_stack(name: str) -> None:
    """Raise CommandError if version 1.x of this service deployed the data stack. Raises aws.AwsError."""
    stack = data_stack.stack_of(name)
    deployed = stacks.template(stack)
    if deployed and not names(parse_template(deployed)):
        raise CommandError(
            f"The stack {stack} was deployed by 1.x: upgrade it to 2.0.0 first ('Upgrading' in infra/README.md)."
        )


def names(template: Mapping[str, Any]) -> set[str]:
    """Return the names of a template's global indexes."""
    tables = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::DynamoDB::Table"
    ]
    return {index["IndexName"] for table in tables for index in table.get("GlobalSecondaryIndexes", ())}
