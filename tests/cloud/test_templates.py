"""What the stacks promise and no emulator can show: what is kept, who may do what, what the gateway says by itself."""

import json
from typing import Any

import botocore.session
import pytest

from infra.deploy import gateway_responses
from tests.cloud import stack
from tests.cloud.stack import HERE, KEPT, allow, arn, conditional, document
from tests.samples import OPEN

EVERY_TYPE = botocore.session.get_session().get_service_model("apigateway").shape_for("GatewayResponseType").enum
REST_API = {"Ref": "RestAPI"}


def test_what_the_data_stack_makes_stays_when_it_goes() -> None:
    for name, made in stack.data().items():
        assert {**made, **KEPT} == made, name


def test_the_table_survives_mistakes() -> None:
    assert stack.data()["Table"]["Properties"] == {
        "TableName": {"Ref": "Name"},
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("scope", "id")],
        "KeySchema": [{"AttributeName": "scope", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
        "TimeToLiveSpecification": {"AttributeName": "expires", "Enabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
        "DeletionProtectionEnabled": True,
    }


def test_the_key_turns_and_only_the_api_can_use_it() -> None:
    account = {"Principal": {"AWS": arn("iam::${AWS::AccountId}:root")}}
    role = "role/${Name}-api-ApiHandlerRole-*"
    functions = [arn("iam::${AWS::AccountId}:" + role), arn(f"sts::${{AWS::AccountId}}:assumed-{role}/*")]
    administers = allow(
        "TheAccountAdministersItAndCannotUseIt",
        "*",
        kms="CancelKeyDeletion CreateAlias DeleteAlias DescribeKey DisableKey EnableKey EnableKeyRotation GetKeyPolicy "
        "GetKeyRotationStatus ListAliases ListKeyPolicies ListKeyRotations ListResourceTags PutKeyPolicy "
        "RotateKeyOnDemand ScheduleKeyDeletion TagResource UntagResource UpdateAlias UpdateKeyDescription",
    )
    uses = allow("TheApiSealsAndUnseals", "*", {"ArnLike": {"aws:PrincipalArn": functions}}, kms="Decrypt Encrypt")
    key = stack.data()["Key"]["Properties"]
    assert key == {
        "Description": key["Description"],
        "EnableKeyRotation": True,
        "BypassPolicyLockoutSafetyCheck": True,
        "KeyPolicy": document({**administers, **account}, {**uses, **account}),
    }
    alias = {"AliasName": {"Fn::Sub": "alias/${Name}"}, "TargetKeyId": {"Ref": "Key"}}
    assert stack.data()["KeyAlias"]["Properties"] == alias


def test_each_function_has_a_role_of_its_own_and_no_policy_but_that_written_for_it(template: dict[str, Any]) -> None:
    functions = stack.of_type(template["Resources"], "AWS::Lambda::Function")
    assert {name: function["Role"]["Fn::GetAtt"][0] for name, function in functions.items()} == {
        "APIHandler": "ApiHandlerRole",
        "Authorizer": "AuthorizerRole",
    }
    trusted = {"Sid": "", "Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}
    written = {"ApiHandlerRole": "policy-api.json", "AuthorizerRole": "policy-authorizer.json"}
    assert stack.of_type(template["Resources"], "AWS::IAM::Role") == {
        name: {
            "AssumeRolePolicyDocument": document({**trusted, "Action": "sts:AssumeRole"}),
            "PermissionsBoundary": conditional("HasBoundary", "PermissionsBoundary"),
            "Policies": [{"PolicyName": f"{name}Policy", "PolicyDocument": document(*stack.statements(file))}],
        }
        for name, file in written.items()
    }


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
    sources = {
        "APIHandler": {"Fn::Sub": [arn(f"execute-api:{HERE}:${{RestAPIId}}/*")["Fn::Sub"], {"RestAPIId": REST_API}]},
        "Authorizer": arn(f"execute-api:{HERE}:${{RestAPI}}/authorizers/*"),
    }
    assert stack.of_type(template["Resources"], "AWS::Lambda::Permission") == {
        f"{function}InvokePermission": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Ref": function},
            "Principal": "apigateway.amazonaws.com",
            "SourceArn": source,
        }
        for function, source in sources.items()
    }


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
    definitions = template["Resources"]["RestAPI"]["Properties"]["Body"]["securityDefinitions"]
    both = "method.request.header.Authorization,method.request.header.${VersionHeaders}"
    function = "lambda:path/2015-03-31/functions/${Authorizer.Arn}/invocations"
    assert definitions["authorizer"]["x-amazon-apigateway-authorizer"] == {
        "type": "request",
        "authorizerUri": arn("apigateway:${AWS::Region}:" + function),
        "authorizerResultTtlInSeconds": {"Ref": "AuthorizerCacheSeconds"},
        "identitySource": {"Fn::If": ["RemembersCallers", {"Fn::Sub": both}, {"Ref": "AWS::NoValue"}]},
    }


def test_every_route_but_the_fallbacks_and_the_open_ones_is_behind_the_authorizer(template: dict[str, Any]) -> None:
    paths = template["Resources"]["RestAPI"]["Properties"]["Body"]["paths"]
    for path, methods in paths.items():
        assert "x-amazon-apigateway-any-method" in methods
        for method, operation in methods.items():
            is_open = method == "x-amazon-apigateway-any-method" or path in OPEN
            expected = None if is_open else [{"authorizer": []}]
            assert operation.get("security") == expected, f"{method} {path}"


def test_it_is_throttled_and_what_is_open_to_everyone_by_itself(template: dict[str, Any]) -> None:
    (stage,) = stack.of_type(template["Resources"], "AWS::ApiGateway::Stage").values()
    limits = [("*", "/*", {"Ref": "ThrottleRate"}, {"Ref": "ThrottleBurst"})]
    limits += [("GET", f"/~1{path[1:]}", 5, 20) for path in sorted(OPEN)]
    assert stage["MethodSettings"] == [
        {"HttpMethod": method, "ResourcePath": path, "ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}
        for method, path, rate, burst in limits
    ]


def test_the_functions_have_the_settings_memory_time_and_reserve_that_were_asked_for(template: dict[str, Any]) -> None:
    settings = {
        "TABLE_NAME": "TableName",
        "KEY_ID": "KeyArn",
        "BASE_URL": "BaseUrl",
        "VERSION_HEADERS": "VersionHeaders",
        "STRICT_REFERENCES": "StrictReferences",
        "LOG_LEVEL": "LogLevel",
    }
    for name, memory, seconds in (("APIHandler", {"Ref": "MemorySize"}, 28), ("Authorizer", 512, 20)):
        function = template["Resources"][name]["Properties"]
        asked = {
            "MemorySize": memory,
            "Timeout": seconds,
            "ReservedConcurrentExecutions": conditional("HasReserve", "ReservedConcurrency"),
            "Environment": {"Variables": {setting: {"Ref": given} for setting, given in settings.items()}},
        }
        assert {**function, **asked} == function


def test_a_custom_domain_leads_to_the_one_stage(template: dict[str, Any]) -> None:
    (stage,) = stack.of_type(template["Resources"], "AWS::ApiGateway::Stage")
    assert template["Resources"]["Domain"] == {
        "Type": "AWS::ApiGateway::DomainName",
        "Condition": "HasDomain",
        "Properties": {
            "DomainName": {"Ref": "DomainName"},
            "RegionalCertificateArn": {"Ref": "CertificateArn"},
            "EndpointConfiguration": {"Types": ["REGIONAL"]},
            "SecurityPolicy": "TLS_1_2",
        },
    }
    assert template["Resources"]["DomainMapping"] == {
        "Type": "AWS::ApiGateway::BasePathMapping",
        "Condition": "HasDomain",
        "Properties": {"DomainName": {"Ref": "Domain"}, "RestApiId": REST_API, "Stage": {"Ref": stage}},
    }


def test_what_is_not_given_has_its_default_and_what_is_empty_is_left_out(template: dict[str, Any]) -> None:
    assert {name: parameter.get("Default") for name, parameter in template["Parameters"].items()} == {
        "TableName": "tunnel-edge",
        "KeyArn": None,
        "BaseUrl": "",
        "VersionHeaders": "Service-Version",
        "StrictReferences": "false",
        "LogLevel": "INFO",
        "LogRetentionDays": 90,
        "MemorySize": 1024,
        "ReservedConcurrency": "",
        "ThrottleRate": 200,
        "ThrottleBurst": 400,
        "AuthorizerCacheSeconds": 0,
        "AlarmTopicArn": "",
        "PermissionsBoundary": "",
        "DomainName": "",
        "CertificateArn": "",
    }
    asked = {
        "HasDomain": ("DomainName", ""),
        "HasAlarmTopic": ("AlarmTopicArn", ""),
        "HasBoundary": ("PermissionsBoundary", ""),
        "HasReserve": ("ReservedConcurrency", ""),
        "RemembersCallers": ("AuthorizerCacheSeconds", 0),
    }
    assert template["Conditions"] == {
        name: {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, nothing]}]}
        for name, (parameter, nothing) in asked.items()
    }
