"""What the stacks promise and no emulator can show: what is kept, who may do what, what the gateway says by itself."""

import json
from typing import Any

import botocore.session
import pytest

from infra import gateway_responses
from tests.cloud import stack
from tests.samples import OPEN

EVERY_TYPE = botocore.session.get_session().get_service_model("apigateway").shape_for("GatewayResponseType").enum
ACCOUNT = {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}


def test_the_table_survives_mistakes() -> None:
    table = stack.data()["Table"]
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
    properties = table["Properties"]
    assert properties["DeletionProtectionEnabled"] is True
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}


def test_the_key_is_kept_turns_and_only_the_api_can_use_it() -> None:
    key = stack.data()["Key"]
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert key["Properties"]["EnableKeyRotation"] is True
    administers, uses = key["Properties"]["KeyPolicy"]["Statement"]
    assert not {"kms:*", "kms:Decrypt", "kms:Encrypt", "kms:CreateGrant"} & set(administers["Action"])
    assert (uses["Principal"], uses["Action"]) == ({"AWS": ACCOUNT}, ["kms:Decrypt", "kms:Encrypt"])
    named = uses["Condition"]["ArnLike"]["aws:PrincipalArn"]
    assert [arn["Fn::Sub"].partition("::${AWS::AccountId}:")[2] for arn in named] == [
        "role/${Name}-api-ApiHandlerRole-*",
        "assumed-role/${Name}-api-ApiHandlerRole-*/*",
    ]


def test_each_function_has_a_role_of_its_own_and_no_policy_but_that_written_for_it(template: dict[str, Any]) -> None:
    functions = stack.of_type(template["Resources"], "AWS::Lambda::Function")
    roles = stack.of_type(template["Resources"], "AWS::IAM::Role")
    assert {name: function["Role"]["Fn::GetAtt"][0] for name, function in functions.items()} == {
        "APIHandler": "ApiHandlerRole",
        "Authorizer": "AuthorizerRole",
    }
    written = {"ApiHandlerRole": "policy-api.json", "AuthorizerRole": "policy-authorizer.json"}
    assert roles.keys() == written.keys()
    for name, role in roles.items():
        (policy,) = role["Policies"]
        assert policy["PolicyDocument"]["Statement"] == stack.statements(written[name])
        assert "ManagedPolicyArns" not in role


@pytest.mark.parametrize("policy", ["policy-api.json", "policy-authorizer.json"])
def test_a_policy_names_every_action_and_resource(policy: str) -> None:
    for statement in stack.statements(policy):
        assert statement["Effect"] == "Allow"
        assert "*" not in json.dumps(statement["Action"])
        assert "*" not in json.dumps(statement["Resource"])


@pytest.mark.parametrize(
    ("policy", "group"), [("policy-api.json", "APIHandlerLogs"), ("policy-authorizer.json", "AuthorizerLogs")]
)
def test_a_function_may_write_to_its_own_log_alone(policy: str, group: str, template: dict[str, Any]) -> None:
    (statement,) = [said for said in stack.statements(policy) if said["Sid"] == "Logs"]
    assert sorted(statement["Action"]) == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert statement["Resource"] == {"Fn::GetAtt": [group, "Arn"]}
    function = group.removesuffix("Logs")
    assert template["Resources"][function]["Properties"]["LoggingConfig"] == {"LogGroup": {"Ref": group}}


def test_the_gateway_may_call_both_functions_and_nobody_else_may(template: dict[str, Any]) -> None:
    permissions = stack.of_type(template["Resources"], "AWS::Lambda::Permission")
    assert {permission["FunctionName"]["Ref"] for permission in permissions.values()} == {"APIHandler", "Authorizer"}
    for permission in permissions.values():
        assert (permission["Action"], permission["Principal"]) == (
            "lambda:InvokeFunction",
            "apigateway.amazonaws.com",
        )
        assert ":execute-api:" in json.dumps(permission["SourceArn"])
        assert "RestAPI" in json.dumps(permission["SourceArn"])


@pytest.mark.parametrize("type", EVERY_TYPE)
def test_whatever_the_gateway_says_by_itself_has_the_one_error_body(type: str, template: dict[str, Any]) -> None:
    definition = template["Resources"]["RestAPI"]["Properties"]["Body"]
    inside = definition["x-amazon-apigateway-gateway-responses"][type]
    resources = stack.of_type(template["Resources"], "AWS::ApiGateway::GatewayResponse").values()
    (resource,) = [found for found in resources if found["ResponseType"] == type]
    assert resource == {
        "RestApiId": {"Ref": "RestAPI"},
        "ResponseType": type,
        "StatusCode": str(inside["statusCode"]),
        "ResponseParameters": inside["responseParameters"],
        "ResponseTemplates": inside["responseTemplates"],
    }
    body = json.loads(inside["responseTemplates"]["application/json"])
    assert body == {
        "error_code": gateway_responses.RESPONSES[type].code,
        "status_code": inside["statusCode"],
        "msg": body["msg"],
        "details": {"operation_id": "$context.requestId"},
    }
    assert body["msg"].endswith(".")
    assert inside["responseParameters"]["gatewayresponse.header.Operation-Id"] == "context.requestId"


@pytest.mark.parametrize(
    ("type", "status", "header"),
    [
        ("UNAUTHORIZED", 401, ("WWW-Authenticate", "'Bearer'")),
        ("ACCESS_DENIED", 400, None),
        ("AUTHORIZER_CONFIGURATION_ERROR", 503, ("Retry-After", "'1'")),
        ("AUTHORIZER_FAILURE", 503, ("Retry-After", "'1'")),
        ("THROTTLED", 429, ("Retry-After", "'1'")),
        ("REQUEST_TOO_LARGE", 413, None),
        ("MISSING_AUTHENTICATION_TOKEN", 404, None),
        ("INTEGRATION_FAILURE", 500, None),
        ("INTEGRATION_TIMEOUT", 503, ("Retry-After", "'1'")),
        ("DEFAULT_4XX", 400, None),
        ("DEFAULT_5XX", 500, None),
    ],
)
def test_it_has_the_status_of_the_contract(type: str, status: int, header: tuple[str, str] | None) -> None:
    said = gateway_responses.in_definition()[type]
    assert said["statusCode"] == status
    if header:
        assert said["responseParameters"][f"gatewayresponse.header.{header[0]}"] == header[1]


def test_a_deleted_key_is_refused_at_once_unless_the_operator_wants_a_cache(template: dict[str, Any]) -> None:
    assert template["Parameters"]["AuthorizerCacheSeconds"]["Default"] == 0
    definitions = template["Resources"]["RestAPI"]["Properties"]["Body"]["securityDefinitions"]
    authorizer = definitions["authorizer"]["x-amazon-apigateway-authorizer"]
    assert authorizer["authorizerResultTtlInSeconds"] == {"Ref": "AuthorizerCacheSeconds"}
    assert authorizer["type"] == "request"


def test_every_route_but_the_fallbacks_and_the_open_ones_is_behind_the_authorizer(template: dict[str, Any]) -> None:
    paths = template["Resources"]["RestAPI"]["Properties"]["Body"]["paths"]
    for path, methods in paths.items():
        assert "x-amazon-apigateway-any-method" in methods
        for method, operation in methods.items():
            is_open = method == "x-amazon-apigateway-any-method" or path in OPEN
            expected = None if is_open else [{"authorizer": []}]
            assert operation.get("security") == expected, f"{method} {path}"


def test_what_is_open_to_everyone_is_throttled_by_itself(template: dict[str, Any]) -> None:
    (stage,) = stack.of_type(template["Resources"], "AWS::ApiGateway::Stage").values()
    _, *settings = stage["MethodSettings"]
    assert {(one["HttpMethod"], one["ResourcePath"]) for one in settings} == {
        ("GET", f"/~1{path[1:]}") for path in OPEN
    }
    assert {one["ThrottlingRateLimit"] for one in settings} == {5}


def test_it_is_throttled_watched_and_its_logs_are_kept_for_a_time(template: dict[str, Any]) -> None:
    (stage,) = stack.of_type(template["Resources"], "AWS::ApiGateway::Stage").values()
    settings, *_ = stage["MethodSettings"]
    assert (settings["HttpMethod"], settings["ResourcePath"]) == ("*", "/*")
    assert settings["ThrottlingRateLimit"] == {"Ref": "ThrottleRate"}
    assert settings["ThrottlingBurstLimit"] == {"Ref": "ThrottleBurst"}
    line = json.loads(stage["AccessLogSetting"]["Format"])
    assert (line["operation_id"], line["key"]) == ("$context.requestId", "$context.authorizer.key")
    logs = stack.of_type(template["Resources"], "AWS::Logs::LogGroup")
    assert {name: log["RetentionInDays"] for name, log in logs.items()} == {
        name: {"Ref": "LogRetentionDays"} for name in ("APIHandlerLogs", "AuthorizerLogs", "AccessLogs")
    }
    alarms = stack.of_type(template["Resources"], "AWS::CloudWatch::Alarm")
    assert {alarm["MetricName"] for alarm in alarms.values()} == {
        "5XXError", "Latency", "ReadThrottleEvents", "WriteThrottleEvents", "AuthorizerFailures",
    }  # fmt: skip
    for alarm in alarms.values():
        assert alarm["AlarmActions"] == [
            {"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, {"Ref": "AWS::NoValue"}]}
        ]
