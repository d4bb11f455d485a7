"""The pipeline's own templates in the emulated cloud, and the functions there within their boundary.

What that cloud cannot do is held by test_least_privilege.py alone: it makes no provider for OIDC, drops the boundaries
of roles that a stack makes (they are set here), sets no condition key of Lambda and KMS and none for DynamoDB's keys
(conditions on them are left out here), and CloudFormation there does not act by the service role.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from infra import CommandError
from infra.deploy import service, stacks
from tests.cloud import rights, weakened
from tests.cloud.evaluator import Call, Context, Statement, allows
from tests.cloud.rights import SERVICE_ROLE
from tests.conftest import ROOT, Served, client_of
from tests.transports import Client, Http

NAME, BUCKET = rights.NAME, "tunnel-edge-packages"
PIPELINE = {"Environment": "production", "Repository": "acme/tunnel-edge", "OidcProviderArn": "arn:aws:iam::1:oidc"}


_FAILS = json.dumps(
    {
        "Resources": {
            "Alarm": {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "EvaluationPeriods": 1,
                    "ComparisonOperator": "LessThanThreshold",
                    "Metrics": [{"Id": "all", "Expression": "1"}],  # which the emulated cloud cannot do, and says so
                },
            }
        }
    }
)


@dataclass(frozen=True)
class Deployment:
    """A second deployment into the emulated cloud, as infra/README.md makes one, and the calls that made it."""

    client: Client
    cloud: Mapping[str, str]
    called: list[tuple[str, Mapping[str, Any]]]
    roles: list[str]  # of the functions

    def within(self, boundary: list[Statement]) -> None:
        """Put the functions within a boundary."""
        iam = client_of(self.cloud, "iam")
        document = json.dumps({"Version": "2012-10-17", "Statement": boundary})
        policy = iam.create_policy(PolicyName=f"boundary-{hash(document)}", PolicyDocument=document)["Policy"]["Arn"]
        for role in self.roles:
            iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=policy)


@pytest.fixture(scope="module")
def deployment(deployed_api: Served) -> Deployment:
    environment = {**deployed_api.cloud, "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
    calls: list[tuple[str, Mapping[str, Any]]] = []

    def note(params: Mapping[str, Any], model: Any, **_: object) -> None:
        calls.append((f"{model.service_model.service_name}:{model.name}", params))

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        boto3.setup_default_session()
        by_hand = (ROOT / "infra" / "deploy" / "pipeline.yaml").read_text()
        pipeline = stacks.deploy(by_hand, "pipeline-production", PIPELINE)
        stacks.deploy(
            (ROOT / "infra" / "deploy" / "edge.yaml").read_text(), f"{NAME}-edge", {"Name": NAME, "KeyArn": "k"}
        )
        boto3.setup_default_session()  # a client has what was registered before it was made
        assert boto3.DEFAULT_SESSION
        boto3.DEFAULT_SESSION.events.register("provide-client-params", note)
        with pytest.raises(CommandError):  # whose reasons are asked for
            stacks.deploy(_FAILS, f"{NAME}-api", {}, role=pipeline["ServiceRoleArn"])
        parameters = {"PermissionsBoundary": pipeline["BoundaryArn"]}
        for _ in range(2):  # made, and changed
            outputs = service.deploy(ROOT / "build" / "dev", NAME, BUCKET, parameters, role=pipeline["ServiceRoleArn"])
    boto3.setup_default_session()
    command = [sys.executable, "-m", "chalicelib", "accounts", "create", "bounded"]
    result = subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, check=True, capture_output=True, text=True
    )
    token = result.stdout.split()[-1]
    url = f"{deployed_api.cloud['AWS_ENDPOINT_URL']}/restapis/{outputs['RestAPIId']}/dev/_user_request_"
    iam = client_of(deployed_api.cloud, "iam")
    roles = [role["RoleName"] for role in iam.list_roles()["Roles"] if role["RoleName"].startswith(f"{NAME}-api-")]
    return Deployment(Client(Http(url)).with_token(token), deployed_api.cloud, calls, roles)


def without_conditions(statements: tuple[Statement, ...]) -> list[Statement]:
    return [{name: value for name, value in statement.items() if name != "Condition"} for statement in statements]


def test_the_functions_do_their_work_within_the_boundary(deployment: Deployment) -> None:
    boundary = without_conditions(rights.boundary())
    for statement in boundary:  # whose keys and accounts are the emulated cloud's own
        statement["Resource"] = json.loads(json.dumps(statement["Resource"]).replace("123456789012", "*"))  # type: ignore[index]
    deployment.within(boundary)
    authority = deployment.client.create("/ssh_certificate_authorities", {})["id"]
    answer = deployment.client.get(f"/audit_events?resource_id={authority}")
    assert (answer.status, len(answer.json["audit_events"])) == (200, 1)
    deployment.within([statement for statement in boundary if statement["Sid"] != "EventsOfOneResourceOrActor"])
    assert deployment.client.get(f"/audit_events?resource_id={authority}").status == 500
    assert deployment.client.get("/audit_events").status == 200


STACK = f"arn:aws:cloudformation:us-east-1:123456789012:stack/{NAME}-data/1"
TRANSFORM = "arn:aws:cloudformation:us-east-1:aws:transform/Serverless-2016-10-31"
TO_CLOUDFORMATION: Context = {"iam:PassedToService": "cloudformation.amazonaws.com"}
BY_THE_ROLE: Context = {"cloudformation:RoleArn": SERVICE_ROLE}


def list_calls(action: str, params: Mapping[str, Any]) -> Iterator[Call]:
    """Yield IAM's requests for one call of the deployer, with those that it implies."""
    if action == "s3:PutObject":
        yield Call(action, f"{rights.BUCKET}/{params['Key']}")
        return
    name = params["StackName"].split("/")[1] if params["StackName"].startswith("arn:") else params["StackName"]
    with_role = "RoleARN" in params
    yield Call(action, STACK.replace(f"{NAME}-data", name), BY_THE_ROLE if with_role else {})
    if with_role:
        yield Call("iam:PassRole", SERVICE_ROLE, TO_CLOUDFORMATION)
    if "TemplateURL" in params:  # the API's: it is read, and SAM translates it
        yield Call("s3:GetObject", f"{rights.BUCKET}/template")
        yield Call("cloudformation:CreateChangeSet", TRANSFORM)


OTHER_STACK, OTHER_ROLE = STACK.replace(NAME, "payroll"), SERVICE_ROLE.replace("ServiceRole", "Administrator")
FORBIDDEN = [
    *(
        Call(f"cloudformation:{operation}", OTHER_STACK, BY_THE_ROLE)
        for operation in ("CreateStack", "DescribeStacks", "GetTemplate")
    ),
    *(Call("cloudformation:UpdateStack", STACK, context) for context in ({}, {"cloudformation:RoleArn": OTHER_ROLE})),
    *(Call("cloudformation:DeleteStack", STACK, context) for context in ({}, BY_THE_ROLE)),
    Call("cloudformation:CreateChangeSet", TRANSFORM.replace("Serverless", "Include")),
    Call("cloudformation:DeleteChangeSet", TRANSFORM),
    Call("s3:GetObject", f"{rights.BUCKET}-of-others/package"),
    Call("s3:DeleteObject", f"{rights.BUCKET}/package"),
    Call("iam:PassRole", OTHER_ROLE, TO_CLOUDFORMATION),
    Call("iam:PassRole", SERVICE_ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}),
    Call("iam:AttachRolePolicy", SERVICE_ROLE, TO_CLOUDFORMATION),
]


def test_the_deployer_may_do_what_a_deployment_does_and_no_more(deployment: Deployment) -> None:
    policy = rights.roles()["deployer"].policy
    needed = [call for action, params in deployment.called for call in list_calls(action, params)]
    assert [call for call in needed if not allows(call, policy)] == []
    assert [call for call in FORBIDDEN if allows(call, policy)] == []
    assert [label for label, less in weakened.with_less(policy) if all(allows(call, less) for call in needed)] == []
    assert [
        label for label, more in weakened.with_more(policy) if not any(allows(call, more) for call in FORBIDDEN)
    ] == []
