"""The templates as the cloud reads them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT

HERE = "${AWS::Region}:${AWS::AccountId}"
STACK_NAME = {"Ref": "AWS::StackName"}
KEPT = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}


def data() -> dict[str, Any]:
    """The stateful stack's resources, with their intrinsic functions in full."""
    resources: dict[str, Any] = yaml_parse((ROOT / "infra" / "deploy" / "data.yaml").read_text())["Resources"]
    return resources


def of_type(resources: Mapping[str, Any], type: str) -> dict[str, Any]:
    """The properties of the resources of a type, by their names."""
    return {name: found["Properties"] for name, found in resources.items() if found["Type"] == type}


def arn(named: str) -> dict[str, str]:
    """What the templates call something in the cloud, from its service on."""
    return {"Fn::Sub": "arn:${AWS::Partition}:" + named}


def document(*statements: Mapping[str, Any]) -> dict[str, Any]:
    """A whole policy."""
    return {"Version": "2012-10-17", "Statement": [*statements]}


def allow(sid: str, resource: Any, condition: Mapping[str, Any] | None = None, **actions: str) -> dict[str, Any]:
    """A whole statement: `dynamodb="GetItem Query"` are two actions of a service; a single action is not in a list."""
    named = [f"{service}:{name}" for service, names in actions.items() for name in names.split()]
    said = {"Sid": sid, "Effect": "Allow", "Action": named if len(named) > 1 else named[0], "Resource": resource}
    return {**said, "Condition": condition} if condition else said


def statements(policy: str) -> list[dict[str, Any]]:
    """What the policy of a function allows, as it is written by hand."""
    found: list[dict[str, Any]] = json.loads((ROOT / ".chalice" / policy).read_text())["Statement"]
    return found


def actions(policy: str, service: str) -> set[str]:
    """The actions of a service that a policy allows."""
    return {action for statement in statements(policy) for action in _actions(statement, service)}


def _actions(statement: Mapping[str, Any], service: str) -> Iterator[str]:
    named = statement["Action"]
    for action in [named] if isinstance(named, str) else named:
        if action.startswith(f"{service}:"):
            yield action


def conditional(condition: str, parameter: str) -> dict[str, Any]:
    """The parameter where the condition holds, else nothing."""
    return {"Fn::If": [condition, {"Ref": parameter}, {"Ref": "AWS::NoValue"}]}
