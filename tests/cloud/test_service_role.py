"""The rights of the role that CloudFormation works with, against what its handlers call for each type of resource.

No emulator makes these calls: handlers.json has, by type, what the schemas name that AWS publishes for its types, as
far as the properties of our templates need it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from infra.deploy.templates import parse_template
from tests.cloud import rights, weakened
from tests.cloud.evaluator import Call, Context, Statement, allows
from tests.cloud.rights import BOUNDARY, BUCKET, FUNCTION, KEY, NAME, TABLE
from tests.conftest import ROOT, Served

HANDLERS: dict[str, list[str]] = json.loads((ROOT / "tests" / "cloud" / "handlers.json").read_text())
_REGION_AND_ACCOUNT = "us-east-1:123456789012"
ROLE = f"arn:aws:iam::123456789012:role/{NAME}-api-ApiHandlerRole-x"
_OF_ALL = {  # AWS knows these for all resources only
    "cloudwatch:DescribeAlarms",
    "kms:CreateKey",
    "kms:ListAliases",
    "logs:DescribeIndexPolicies",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
}
_RESOURCES = {
    "cloudwatch": [f"arn:aws:cloudwatch:{_REGION_AND_ACCOUNT}:alarm:{NAME}-api-ErrorsAlarm-x"],
    "dynamodb": [TABLE],
    **{
        f"cloudwatch:{action}": [f"arn:aws:cloudwatch::123456789012:dashboard/{NAME}-api"]
        for action in ("DeleteDashboards", "GetDashboard", "PutDashboard")
    },
    "wafv2": [
        f"arn:aws:wafv2:{_REGION_AND_ACCOUNT}:regional/webacl/a/b",
        "arn:aws:apigateway:us-east-1::/restapis/a/stages/prod",
    ],
    "apigateway:SetWebACL": ["arn:aws:apigateway:us-east-1::/restapis/a/stages/prod"],
    "iam": [ROLE],
    "kms": [KEY],
    "kms:CreateAlias": [KEY, f"arn:aws:kms:{_REGION_AND_ACCOUNT}:alias/{NAME}"],
    "lambda": [FUNCTION],
    "logs": [f"arn:aws:logs:{_REGION_AND_ACCOUNT}:log-group:{NAME}-api-AccessLogs-x"],
    "s3": [f"{BUCKET}/package"],
    "apigateway:POST": [f"arn:aws:apigateway:us-east-1::/{path}" for path in ("restapis", "domainnames")],
    "apigateway:PUT": [f"arn:aws:apigateway:us-east-1::/{path}" for path in ("restapis/a", "tags/a")],
    "apigateway": [f"arn:aws:apigateway:us-east-1::/{path}" for path in ("restapis/a", "domainnames/a")],
}
WITHIN: Context = {"iam:PermissionsBoundary": BOUNDARY}
TO_LAMBDA: Context = {"iam:PassedToService": "lambda.amazonaws.com"}
_CONTEXTS: dict[str, Context] = {
    **dict.fromkeys(("CreateRole", "DeleteRolePolicy", "PutRolePermissionsBoundary", "PutRolePolicy"), WITHIN),
    "PassRole": TO_LAMBDA,
}
LINKED = [  # of a domain, and of a key of many regions
    Call(
        "iam:CreateServiceLinkedRole",
        f"arn:aws:iam::123456789012:role/aws-service-role/{service}/AWSServiceRole",
        {"iam:AWSServiceName": service},
    )
    for service in ("ops.apigateway.amazonaws.com", "mrk.kms.amazonaws.com")
]


def list_handled() -> Iterator[Call]:
    for actions in HANDLERS.values():
        for action in {*actions} - {LINKED[0].action}:
            service, _, name = action.partition(":")
            context = _CONTEXTS.get(name, {})
            for resource in ["*"] if action in _OF_ALL else _RESOURCES.get(action, _RESOURCES[service]):
                yield Call(action, resource, context)


NEEDED = [*list_handled(), *LINKED]
_REPLACEMENTS = {
    NAME: "payroll",
    "key/": "key/mrk-",
    "123456789012:key": "210987654321:key",
    "webacl/": "ipset/",
    BUCKET: f"{BUCKET}-of-others",
}


def foreign(call: Call) -> Call:
    """Return a call of something that is not this environment's."""
    resource = call.resource
    for part, other in _REPLACEMENTS.items():
        resource = resource.replace(part, other)
    for part in ("restapis", "domainnames", "tags"):
        resource = resource.replace(f"::/{part}", "::/vpclinks")
    return replace(call, resource=resource.replace("aws-service-role/", "aws-service-role/another."))


FORBIDDEN = [
    *(foreign(call) for call in NEEDED if call.resource != "*"),
    *(replace(call, context={}) for call in NEEDED if call.context),
    Call("iam:PassRole", ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}),
    *(replace(call, context={"iam:AWSServiceName": "another.amazonaws.com"}) for call in LINKED),
    *(Call("iam:DeleteServiceLinkedRole", call.resource, call.context) for call in LINKED),
    *(Call("iam:AttachRolePolicy", ROLE, context) for context in ({}, WITHIN, TO_LAMBDA)),
    Call("iam:UpdateAssumeRolePolicy", ROLE, WITHIN),
    *(Call(f"kms:{operation}", KEY) for operation in ("Decrypt", "PutKeyPolicy", "ScheduleKeyDeletion", "UpdateAlias")),
    Call("kms:DeleteAlias", f"arn:aws:kms:{_REGION_AND_ACCOUNT}:alias/{NAME}"),
    Call("dynamodb:DeleteTable", TABLE),
    Call("lambda:InvokeFunction", FUNCTION),
    Call("wafv2:DeleteWebACL", f"arn:aws:wafv2:{_REGION_AND_ACCOUNT}:regional/webacl/a/b"),
    Call("apigateway:UpdateRestApiPolicy", "arn:aws:apigateway:us-east-1::/restapis/a/stages/prod"),
    Call("cloudwatch:ListDashboards", f"arn:aws:cloudwatch::123456789012:dashboard/{NAME}-api"),
    Call("apigateway:UpdateRestApiPolicy", "arn:aws:apigateway:us-east-1::/restapis/a"),
    Call("cloudwatch:SetAlarmState", _RESOURCES["cloudwatch"][0]),
    Call("logs:PutSubscriptionFilter", _RESOURCES["logs"][0]),
    Call("s3:DeleteObject", f"{BUCKET}/package"),
]  # fmt: skip


def filter_allowed(calls: list[Call], policy: tuple[Statement, ...]) -> list[Call]:
    return [call for call in calls if allows(call, policy)]


def test_every_type_of_resource_that_is_deployed_has_its_handlers_here(deployed_api: Served) -> None:
    stacks = (ROOT / "infra" / "deploy" / "data.yaml", ROOT / "build" / "dev" / "translated.json")
    types = {
        resource["Type"] for stack in stacks for resource in parse_template(stack.read_text())["Resources"].values()
    }
    assert types == HANDLERS.keys()


def test_the_role_may_do_what_the_handlers_do_and_nothing_that_must_never_be() -> None:
    policy = rights.roles()["service"].policy
    assert [call for call in NEEDED if not allows(call, policy)] == []
    assert filter_allowed(FORBIDDEN, policy) == []


def test_no_right_is_there_that_no_handler_needs_and_no_limit_can_be_taken_away() -> None:
    policy = rights.roles()["service"].policy
    less_and_more = [*weakened.with_less(policy)], [*weakened.with_more(policy)]
    assert [weakness for weakness, less in less_and_more[0] if all(allows(call, less) for call in NEEDED)] == []
    assert [weakness for weakness, more in less_and_more[1] if not any(allows(call, more) for call in FORBIDDEN)] == []
