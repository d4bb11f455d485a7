"""What the pipeline's roles may do: deploy these stacks, and give the functions no more than they need."""

import json
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.cloud import stack
from tests.conftest import ROOT

RESOURCES: dict[str, Any] = yaml_parse((ROOT / "infra" / "pipeline.yaml").read_text())["Resources"]


def allowed(name: str) -> list[dict[str, Any]]:
    """The statements of a role's policies."""
    policies = RESOURCES[name]["Properties"]["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def actions(statements: list[dict[str, Any]]) -> set[str]:
    named = [said["Action"] for said in statements]
    return {action for said in named for action in ([said] if isinstance(said, str) else said)}


def test_the_boundary_allows_what_the_functions_need_and_nothing_else() -> None:
    boundary = RESOURCES["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    needed = [*stack.statements("policy-api.json"), *stack.statements("policy-authorizer.json")]
    assert actions(boundary) == actions(needed)


def test_the_boundary_holds_outside_of_the_functions_too() -> None:
    for statement in RESOURCES["Boundary"]["Properties"]["PolicyDocument"]["Statement"]:
        if statement["Sid"] != "Logs":
            assert "function:tunnel-edge-${Environment}-api-*" in json.dumps(statement["Condition"]["ArnLike"])


def test_a_role_is_made_within_the_boundary_or_not_at_all() -> None:
    making = [said for said in allowed("ServiceRole") if {"iam:CreateRole", "iam:PutRolePolicy"} & actions([said])]
    assert making
    for statement in making:
        assert statement["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}}
    assert "iam:DeleteRolePermissionsBoundary" not in actions(allowed("ServiceRole"))


@pytest.mark.parametrize("role", ["DeployRole", "ServiceRole"])
def test_no_role_can_delete_the_table_or_the_key_or_use_either(role: str) -> None:
    forbidden = {
        "dynamodb:DeleteTable", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query",
        "dynamodb:Scan", "kms:CreateGrant", "kms:Decrypt", "kms:Encrypt", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion",
        "kms:UpdateAlias",
    }  # fmt: skip
    assert not forbidden & actions(allowed(role))
    assert not [action for action in actions(allowed(role)) if "*" in action]


def test_only_jobs_of_the_repository_in_the_environment_can_deploy() -> None:
    (trust,) = RESOURCES["DeployRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    issuer = "token.actions.githubusercontent.com"
    assert trust["Condition"] == {
        "StringEquals": {
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": {"Fn::Sub": "repo:${Repository}:environment:${Environment}"},
        }
    }


def test_a_deployment_works_with_the_service_role_alone() -> None:
    (stacks,) = [said for said in allowed("DeployRole") if "cloudformation:UpdateStack" in actions([said])]
    role = {"Fn::GetAtt": ["ServiceRole", "Arn"]}
    assert stacks["Condition"] == {"StringEquals": {"cloudformation:RoleArn": role}}
    (passing,) = [said for said in allowed("DeployRole") if "iam:PassRole" in actions([said])]
    assert passing["Resource"] == role
