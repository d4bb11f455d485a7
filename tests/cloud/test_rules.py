"""What no template may ever do, whatever else it says: lose data, allow more than is needed, answer unguarded."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
import pytest

from chalicelib.http.limits import admission
from infra.deploy.templates import parse_template
from tests.cloud import policies
from tests.cloud.policies import Statement
from tests.conftest import ROOT, Served
from tests.samples import OPEN

Resources = Mapping[str, Any]
DATA, PIPELINE, BACKUP = (
    parse_template((ROOT / "infra" / "deploy" / file).read_text())["Resources"]
    for file in ("data.yaml", "pipeline.yaml", "backup.yaml")
)
BY_HAND = ("policy-api.json", "policy-authorizer.json")
OF_THE_EDGE = ("edge-EdgeRole", "edge-EdgeSignInRole", "edge-EdgeIssuerRole")
ROLES, MANAGED = ("DeployRole", "ServiceRole"), ("Boundary", "OperatorPolicy")
EVERY_TYPE = botocore.session.get_session().get_service_model("apigateway").shape_for("GatewayResponseType").enum
STATUSES = {  # of what the gateway answers by itself, as the contract has them
    "ACCESS_DENIED": 429,
    "AUTHORIZER_CONFIGURATION_ERROR": 503,
    "AUTHORIZER_FAILURE": 503,
    "DEFAULT_4XX": 400,
    "DEFAULT_5XX": 500,
    "INTEGRATION_FAILURE": 500,
    "INTEGRATION_TIMEOUT": 503,
    "MISSING_AUTHENTICATION_TOKEN": 404,
    "REQUEST_TOO_LARGE": 413,
    "THROTTLED": 429,
    "UNAUTHORIZED": 401,
}
REQUIRED = {401: ("WWW-Authenticate", "'Bearer'"), 429: ("Retry-After", "'1'"), 503: ("Retry-After", "'1'")}


@pytest.fixture(scope="module")
def api(deployed_api: Served) -> Resources:
    """Return the API's stack as SAM makes it of the package that was deployed."""
    resources: Resources = json.loads((ROOT / "build" / "dev" / "translated.json").read_text())["Resources"]
    return resources


def of_type(resources: Resources, name: str) -> list[Any]:
    """Return the properties of the resources of a type."""
    return [resource["Properties"] for resource in resources.values() if resource["Type"] == name]


def of_role(name: str) -> list[Statement]:
    policies = PIPELINE[name]["Properties"]["Policies"]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def of_policy(name: str) -> list[Statement]:
    statements: list[Statement] = PIPELINE[name]["Properties"]["PolicyDocument"]["Statement"]
    return statements


def requiring(statements: list[Statement], action: str) -> Iterator[Any]:
    """Yield the condition of each statement that allows an action."""
    for statement in statements:
        if action in policies.each(statement["Action"]):
            yield statement["Condition"]


def test_what_holds_data_stays_when_its_stack_goes_and_survives_mistakes() -> None:
    for resource in (*DATA.values(), PIPELINE["Bucket"]):
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")
    table = DATA["Table"]["Properties"]
    assert table["DeletionProtectionEnabled"]
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    own_key = {"Fn::If": ["HasTableKey", {"Fn::GetAtt": ["TableKey", "Arn"]}, {"Ref": "AWS::NoValue"}]}
    assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": own_key}
    assert DATA["Key"]["Properties"]["EnableKeyRotation"]


def test_the_key_admits_each_role_of_the_edge_that_uses_it() -> None:
    edge = parse_template((ROOT / "infra" / "deploy" / "edge.yaml").read_text())["Resources"]
    used = [
        name
        for name, resource in edge.items()
        if resource["Type"] == "AWS::IAM::Role" and "kms:" in json.dumps(resource, default=str)
    ]
    assert sorted(f"edge-{name}" for name in used) == sorted(OF_THE_EDGE)


def test_the_account_administers_the_key_and_only_the_api_and_the_edge_use_it() -> None:
    administers, *users, seals, reencrypts = DATA["Key"]["Properties"]["KeyPolicy"]["Statement"]
    use = ("crypt", "DataKey", "Grant", "Mac", "Sign", "*")
    assert not [action for action in administers["Action"] if any(word in action for word in use)]
    for uses, role in zip(users, ("api-ApiHandlerRole", *OF_THE_EDGE), strict=True):
        assert policies.actions([uses]) == {"kms:Decrypt", "kms:Encrypt"}
        for principal in uses["Condition"]["ArnLike"]["aws:PrincipalArn"]:
            assert f"role/${{Name}}-{role}-*" in principal["Fn::Sub"]
    assert policies.actions([seals]) == {"kms:Encrypt"}
    assert seals["Condition"]["StringEquals"]["kms:EncryptionContext:resource"] == "oauth_apps"
    condition, by_the_operator, otherwise = reencrypts["Fn::If"]
    assert (condition, otherwise) == ("LetsOperatorSealAgain", {"Ref": "AWS::NoValue"})
    assert policies.actions([by_the_operator]) == {"kms:ReEncryptFrom", "kms:ReEncryptTo"}
    assert by_the_operator["Principal"] == {"AWS": {"Ref": "OperatorRoleArn"}}


def test_the_key_of_the_table_is_used_only_through_the_table_and_its_backups() -> None:
    key = DATA["TableKey"]
    assert (key["Condition"], key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("HasTableKey", "Retain", "Retain")
    administers, used = key["Properties"]["KeyPolicy"]["Statement"]
    assert not [action for action in administers["Action"] if any(word in action for word in ("crypt", "DataKey"))]
    assert used["Condition"]["StringEquals"]["kms:CallerAccount"] == {"Ref": "AWS::AccountId"}
    services = [service["Fn::Sub"].partition(".")[0] for service in used["Condition"]["StringEquals"]["kms:ViaService"]]
    assert services == ["dynamodb", "backup"]


def test_backups_stay_and_their_role_cannot_read_delete_or_restore() -> None:
    assert (BACKUP["Vault"]["DeletionPolicy"], BACKUP["Vault"]["UpdateReplacePolicy"]) == ("Retain", "Retain")
    (rule,) = BACKUP["Plan"]["Properties"]["BackupPlan"]["BackupPlanRule"]
    condition, (copy,), otherwise = rule["CopyActions"]["Fn::If"]
    assert (condition, otherwise) == ("HasCopies", {"Ref": "AWS::NoValue"})
    assert copy["DestinationBackupVaultArn"] == {"Ref": "CopyVaultArn"}
    (policy,) = BACKUP["Role"]["Properties"]["Policies"]
    statements = [statement.get("Fn::If", [None, statement])[1] for statement in policy["PolicyDocument"]["Statement"]]
    assert policies.actions(statements) == {
        "backup:CopyFromBackupVault", "backup:CopyIntoBackupVault", "backup:DescribeBackupVault",
        "dynamodb:DescribeTable", "dynamodb:ListTagsOfResource", "dynamodb:StartAwsBackupJob",
        "kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey",
    }  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
def test_no_role_can_delete_the_table_or_the_key_or_use_either_or_leave_the_boundary(name: str) -> None:
    forbidden = {
        "dynamodb:DeleteTable", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query",
        "dynamodb:Scan", "iam:AttachRolePolicy", "iam:DeleteRolePermissionsBoundary", "iam:UpdateAssumeRolePolicy",
        "kms:CreateGrant", "kms:Decrypt", "kms:DeleteAlias", "kms:Encrypt", "kms:PutKeyPolicy",
        "kms:ScheduleKeyDeletion", "kms:UpdateAlias",
    }  # fmt: skip
    assert not forbidden & policies.actions(of_role(name))


@pytest.mark.parametrize(
    "statements", [*map(of_role, ROLES), *map(of_policy, MANAGED), *map(policies.of_function, BY_HAND)]
)
def test_no_policy_has_a_wildcard_for_an_action_or_reaches_past_its_environment(statements: list[Statement]) -> None:
    of_no_resource = {  # AWS knows these actions for all resources only
        "cloudwatch:DescribeAlarms", "kms:CreateKey", "kms:ListAliases", "logs:DescribeIndexPolicies",
        "logs:DescribeLogGroups", "logs:DescribeResourcePolicies", "xray:PutTelemetryRecords", "xray:PutTraceSegments",
    }  # fmt: skip
    nameless = (
        ":key/*",
        ":regional/webacl/*",
        "::/",
        "aws:transform/",
        "aws-service-role/",
    )  # what AWS gives a name, or none
    for statement in statements:
        assert statement["Effect"] == "Allow"
        assert not [action for action in policies.actions([statement]) if "*" in action]
        for resource in policies.each(statement["Resource"]):
            if resource == "*":
                assert policies.actions([statement]) <= of_no_resource
            elif resource != {"Fn::Sub": "${Bucket.Arn}/*"} and "arn:" in str(resource):
                environment_names = ("tunnel-edge-${Environment}", "table/${TableName}", *nameless)
                assert any(name in resource["Fn::Sub"] for name in environment_names), resource


def test_roles_are_made_within_the_boundary_and_passed_to_one_service_only() -> None:
    deploy, service = map(of_role, ROLES)
    boundary = {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}}
    for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary", "iam:DeleteRolePolicy"):
        assert [*requiring(service, action)] == [boundary]
    for statements, to in ((deploy, "cloudformation.amazonaws.com"), (service, "lambda.amazonaws.com")):
        assert [*requiring(statements, "iam:PassRole")] == [{"StringEquals": {"iam:PassedToService": to}}]
    with_the_service_role = {"StringEquals": {"cloudformation:RoleArn": {"Fn::GetAtt": ["ServiceRole", "Arn"]}}}
    for action in ("cloudformation:CreateStack", "cloudformation:UpdateStack"):
        assert [*requiring(deploy, action)] == [with_the_service_role]


def test_only_jobs_of_the_repository_in_the_environment_deploy() -> None:
    (trust,) = PIPELINE["DeployRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    conditions = trust["Condition"]["StringEquals"]
    assert [*conditions.values()] == ["sts.amazonaws.com", {"Fn::Sub": "repo:${Repository}:environment:${Environment}"}]


def test_packages_are_private_encrypted_and_travel_over_tls_only() -> None:
    bucket = PIPELINE["Bucket"]["Properties"]
    assert {*bucket["PublicAccessBlockConfiguration"].values()} == {True}
    assert "BucketEncryption" in bucket
    (statement,) = PIPELINE["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_each_function_has_the_policy_written_for_it_within_a_boundary_and_a_log_of_its_own(api: Resources) -> None:
    functions = (("APIHandler", "ApiHandlerRole", BY_HAND[0]), ("Authorizer", "AuthorizerRole", BY_HAND[1]))
    for function, role, file in functions:
        assert api[function]["Properties"]["Role"] == {"Fn::GetAtt": [role, "Arn"]}
        properties, statements = api[role]["Properties"], policies.of_function(file)
        assert [policy["PolicyDocument"]["Statement"] for policy in properties["Policies"]] == [statements]
        assert "ManagedPolicyArns" not in properties
        assert {"Ref": "PermissionsBoundary"} in properties["PermissionsBoundary"]["Fn::If"]
        (log,) = (statement["Resource"] for statement in statements if statement["Sid"] == "Logs")
        assert api[function]["Properties"]["LoggingConfig"] == {"LogGroup": {"Ref": log["Fn::GetAtt"][0]}}
    for permission in of_type(api, "AWS::Lambda::Permission"):
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert "RestAPI" in str(permission["SourceArn"])  # not for APIs of others


def test_every_setting_of_the_service_is_one_of_its_deployment(api: Resources) -> None:
    (_, of_service, *_) = (ROOT / "docs" / "settings.md").read_text().split("\n## ")
    settings = {*re.findall(r"^\| `(\w+)`", of_service, flags=re.M)} - {"AWS_ENDPOINT_URL", "LOCALSTACK_HOST"}
    for function in ("APIHandler", "Authorizer"):
        variables = api[function]["Properties"]["Environment"]["Variables"]
        assert {name for name, value in variables.items() if "Ref" in value} == settings


def test_every_route_but_the_fallbacks_and_the_open_ones_is_behind_the_authorizer(api: Resources) -> None:
    body = api["RestAPI"]["Properties"]["Body"]
    for path, methods in body["paths"].items():
        assert "x-amazon-apigateway-any-method" in methods
        for method, operation in methods.items():
            is_open = method == "x-amazon-apigateway-any-method" or path in OPEN
            assert operation.get("security") == (None if is_open else [{"authorizer": []}]), f"{method} {path}"
    authorizer = body["securityDefinitions"]["authorizer"]["x-amazon-apigateway-authorizer"]
    assert authorizer["authorizerResultTtlInSeconds"] == {"Ref": "AuthorizerCacheSeconds"}


def test_all_is_throttled_and_what_is_open_to_everyone_by_itself(api: Resources) -> None:
    (stage,) = of_type(api, "AWS::ApiGateway::Stage")
    limits = {limit["ResourcePath"]: limit["ThrottlingRateLimit"] for limit in stage["MethodSettings"]}
    of_open = {path: limits["/" + path.replace("/", "~1") if path != "/" else path] for path in OPEN}
    assert of_open.pop("/tokens") == 100
    assert all(limit <= 50 for limit in of_open.values())
    reserved = {limit["ResourcePath"] for limit in stage["MethodSettings"] if limit["ThrottlingBurstLimit"] == 100}
    reserved -= {path for path in limits if path.endswith(("krl", "public_key", "sign_in"))}
    open_paths = {f"/{path.replace('/', '~1')}" for _, path in admission.RESERVED}
    assert reserved <= open_paths
    assert len(limits) == 1 + len(OPEN) + len(reserved)
    assert limits["/*"] == {"Ref": "ThrottleRate"}


def test_what_is_binary_passes_the_gateway(api: Resources) -> None:
    assert api["RestAPI"]["Properties"]["Body"]["x-amazon-apigateway-binary-media-types"] == ["*/*"]
    assert api["RestAPI"]["Properties"]["BinaryMediaTypes"] == ["*/*"]


def test_what_the_app_would_compress_the_gateway_compresses_too(api: Resources) -> None:
    rest_api = api["RestAPI"]["Properties"]
    sizes = (rest_api["MinimumCompressionSize"], rest_api["Body"]["x-amazon-apigateway-minimum-compression-size"])
    assert sizes == (1024, 1024)


def test_every_request_is_logged_without_its_secrets_and_logs_are_kept_for_a_time(api: Resources) -> None:
    (stage,) = of_type(api, "AWS::ApiGateway::Stage")
    log_format = json.loads(stage["AccessLogSetting"]["Format"])
    assert {"operation_id", "account", "key", "route", "status", "error"} <= log_format.keys()
    assert not [value for value in log_format.values() if "header" in value.lower() or "body" in value.lower()]
    assert all("RetentionInDays" in group for group in of_type(api, "AWS::Logs::LogGroup"))


def test_whatever_the_gateway_says_by_itself_has_the_one_error_body_and_the_status_of_the_contract(
    api: Resources,
) -> None:
    inside = api["RestAPI"]["Properties"]["Body"]["x-amazon-apigateway-gateway-responses"]
    beside = {response["ResponseType"]: response for response in of_type(api, "AWS::ApiGateway::GatewayResponse")}
    assert inside.keys() == beside.keys() == {*EVERY_TYPE}
    for kind, response in inside.items():
        status, headers = response["statusCode"], response["responseParameters"]
        assert status == STATUSES.get(kind, status)
        body = json.loads(response["responseTemplates"]["application/json"])
        assert body.keys() == {"error_code", "status_code", "msg", "details"}
        assert (body["status_code"], body["details"]) == (status, {"operation_id": "$context.requestId"})
        assert headers["gatewayresponse.header.Operation-Id"] == "context.requestId"
        if status in REQUIRED:
            name, value = REQUIRED[status]
            assert headers[f"gatewayresponse.header.{name}"] == value
        assert beside[kind]["ResponseTemplates"] == response["responseTemplates"]
        assert beside[kind]["StatusCode"] == str(status)
