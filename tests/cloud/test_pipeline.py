"""What the pipeline's roles may do: deploy these stacks, and give the functions no more than they need.

Each line of a policy is written down here once more: a line that goes, comes or changes is meant by two files.
"""

from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.cloud import stack
from tests.cloud.stack import HERE, KEPT, allow, arn, document
from tests.conftest import ROOT

TEMPLATE: dict[str, Any] = yaml_parse((ROOT / "infra" / "deploy" / "pipeline.yaml").read_text())
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
NAME = "tunnel-edge-${Environment}"
PACKAGES = {"Fn::Sub": "${Bucket.Arn}/*"}
STACKS = [arn(f"cloudformation:{HERE}:stack/{NAME}-{part}/*") for part in ("data", "api")]
SERVICE_ROLE = {"Fn::GetAtt": ["ServiceRole", "Arn"]}
KEYS = arn(f"kms:{HERE}:key/*")
ROLES = arn(f"iam::${{AWS::AccountId}}:role/{NAME}-api-*")
LOGS = f"logs:{HERE}:log-group:{NAME}-api-*"


def whole(name: str) -> dict[str, Any]:
    """A resource of the pipeline, all but its description."""
    properties = {key: value for key, value in RESOURCES[name]["Properties"].items() if key != "Description"}
    return {**RESOURCES[name], "Properties": properties}


def trust(principal: dict[str, Any], action: str = "sts:AssumeRole", **more: Any) -> dict[str, Any]:
    """Who may take on a role."""
    return document({"Effect": "Allow", "Principal": principal, "Action": action, **more})


def role(trusted: dict[str, Any], **policies: dict[str, Any]) -> dict[str, Any]:
    allowed = [{"PolicyName": name, "PolicyDocument": said} for name, said in policies.items()]
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": trusted, "Policies": allowed},
    }


def actions(statements: list[dict[str, Any]]) -> set[str]:
    named = [said["Action"] for said in statements]
    return {action for said in named for action in ([said] if isinstance(said, str) else said)}


def test_packages_are_private_and_what_was_replaced_ends() -> None:
    assert whole("Bucket") == {
        "Type": "AWS::S3::Bucket",
        **KEPT,
        "Properties": {
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
            },
            "VersioningConfiguration": {"Status": "Enabled"},
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Id": "EndWhatWasReplaced",
                        "Status": "Enabled",
                        "NoncurrentVersionExpiration": {"NoncurrentDays": 90},
                        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
                    }
                ]
            },
        },
    }


def test_packages_travel_over_tls_only() -> None:
    denied = {
        "Sid": "OnlyOverTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [{"Fn::GetAtt": ["Bucket", "Arn"]}, PACKAGES],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    assert whole("BucketPolicy") == {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": document(denied)},
    }


def test_only_jobs_of_the_repository_in_the_environment_deploy_and_only_with_the_service_role() -> None:
    issuer = "token.actions.githubusercontent.com"
    assert whole("OidcProvider") == {
        "Type": "AWS::IAM::OIDCProvider",
        "Condition": "HasNoProvider",
        "Properties": {"Url": f"https://{issuer}", "ClientIdList": ["sts.amazonaws.com"]},
    }
    of_the_repository = {
        f"{issuer}:aud": "sts.amazonaws.com",
        f"{issuer}:sub": {"Fn::Sub": "repo:${Repository}:environment:${Environment}"},
    }
    with_the_service_role = {"StringEquals": {"cloudformation:RoleArn": SERVICE_ROLE}}
    translation = arn("cloudformation:${AWS::Region}:aws:transform/Serverless-2016-10-31")
    to_cloudformation = {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}
    assert whole("DeployRole") == role(
        trust(
            {"Federated": {"Fn::If": ["HasNoProvider", {"Ref": "OidcProvider"}, {"Ref": "OidcProviderArn"}]}},
            "sts:AssumeRoleWithWebIdentity",
            Sid="JobsOfThisRepositoryInThisEnvironment",
            Condition={"StringEquals": of_the_repository},
        ),
        Deploy=document(
            allow("Packages", PACKAGES, s3="GetObject PutObject"),
            allow(
                "StacksWithTheServiceRoleOnly", STACKS, with_the_service_role, cloudformation="CreateStack UpdateStack"
            ),
            allow("Progress", STACKS, cloudformation="DescribeStackEvents DescribeStacks"),
            allow("TranslationOfTheSamTemplate", translation, cloudformation="CreateChangeSet"),
            allow("TheServiceRoleToCloudFormationOnly", SERVICE_ROLE, to_cloudformation, iam="PassRole"),
        ),
    )


def test_cloudformation_makes_the_stacks_of_the_environment_with_roles_within_the_boundary_only() -> None:
    its_api = ("domainnames", "domainnames/*", "restapis", "restapis/*", "tags/*")
    gateway = "ops.apigateway.amazonaws.com"
    assert whole("ServiceRole") == role(
        trust(
            {"Service": "cloudformation.amazonaws.com"},
            Condition={"StringEqualsIfExists": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
        ),
        Data=document(
            allow(
                "TheTableButNotItsDeletion",
                arn(f"dynamodb:{HERE}:table/{NAME}"),
                dynamodb="CreateTable DescribeContinuousBackups DescribeContributorInsights "
                "DescribeKinesisStreamingDestination DescribeTable DescribeTimeToLive GetResourcePolicy "
                "ListTagsOfResource TagResource UntagResource UpdateContinuousBackups UpdateTable UpdateTimeToLive",
            ),
            allow("ANewKey", "*", kms="CreateKey ListAliases"),
            allow(
                "TheKeyButNeitherItsPolicyNorItsDeletion",
                KEYS,
                kms="DescribeKey EnableKeyRotation GetKeyPolicy GetKeyRotationStatus ListResourceTags",
            ),
            allow("TheAliasOnce", [KEYS, arn(f"kms:{HERE}:alias/{NAME}")], kms="CreateAlias"),
        ),
        Api=document(
            allow("Packages", PACKAGES, s3="GetObject GetObjectVersion"),
            allow(
                "Functions",
                arn(f"lambda:{HERE}:function:{NAME}-api-*"),
                **{
                    "lambda": "AddPermission CreateFunction DeleteFunction DeleteFunctionConcurrency GetFunction "
                    "GetFunctionCodeSigningConfig GetFunctionConfiguration GetFunctionRecursionConfig GetPolicy "
                    "GetRuntimeManagementConfig ListTags PutFunctionConcurrency RemovePermission TagResource "
                    "UntagResource UpdateFunctionCode UpdateFunctionConfiguration"
                },
            ),
            allow(
                "RolesWithinTheBoundaryOnly",
                ROLES,
                {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}},
                iam="CreateRole DeleteRolePolicy PutRolePermissionsBoundary PutRolePolicy",
            ),
            allow(
                "Roles",
                ROLES,
                iam="DeleteRole GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies ListRoleTags "
                "TagRole UntagRole",
            ),
            allow(
                "RolesToFunctionsOnly",
                ROLES,
                {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}},
                iam="PassRole",
            ),
            allow(
                "Apis",
                [arn(f"apigateway:${{AWS::Region}}::/{path}") for path in its_api],
                apigateway="DELETE GET PATCH POST PUT",
            ),
            allow(
                "TheRoleOfApiGatewayItself",
                arn(f"iam::${{AWS::AccountId}}:role/aws-service-role/{gateway}/*"),
                {"StringEquals": {"iam:AWSServiceName": gateway}},
                iam="CreateServiceLinkedRole",
            ),
            allow(
                "Logs",
                [arn(LOGS), arn(f"{LOGS}:*")],
                logs="CreateLogGroup DeleteLogGroup DeleteMetricFilter DeleteRetentionPolicy DescribeMetricFilters "
                "GetDataProtectionPolicy ListTagsForResource PutMetricFilter PutRetentionPolicy TagResource "
                "UntagResource",
            ),
            allow(
                "Alarms",
                arn(f"cloudwatch:{HERE}:alarm:{NAME}-api-*"),
                cloudwatch="DeleteAlarms ListTagsForResource PutMetricAlarm TagResource UntagResource",
            ),
            allow(
                "WhatCanOnlyBeSeenTogether",
                "*",
                cloudwatch="DescribeAlarms",
                logs="DescribeIndexPolicies DescribeLogGroups",
            ),
        ),
    )


@pytest.mark.parametrize("name", ["DeployRole", "ServiceRole"])
def test_no_role_can_delete_the_table_or_the_key_or_use_either_or_leave_the_boundary(name: str) -> None:
    policies = RESOURCES[name]["Properties"]["Policies"]
    allowed = actions([statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]])
    forbidden = {
        "dynamodb:DeleteTable", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query",
        "dynamodb:Scan", "iam:DeleteRolePermissionsBoundary", "kms:CreateGrant", "kms:Decrypt", "kms:DeleteAlias",
        "kms:Encrypt", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:UpdateAlias",
    }  # fmt: skip
    assert not forbidden & allowed
    assert not [action for action in allowed if "*" in action]


def test_the_boundary_allows_what_the_functions_need_and_nothing_else() -> None:
    boundary = RESOURCES["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    needed = [*stack.statements("policy-api.json"), *stack.statements("policy-authorizer.json")]
    assert actions(boundary) == actions(needed)


def test_the_boundary_holds_outside_of_the_functions_too_and_for_other_tables_and_keys() -> None:
    in_a_function = {"ArnLike": {"lambda:SourceFunctionArn": arn(f"lambda:{HERE}:function:{NAME}-api-*")}}
    of_the_service = {
        "ForAnyValue:StringEquals": {"kms:ResourceAliases": {"Fn::Sub": f"alias/{NAME}"}},
        "ForAllValues:StringEquals": {"kms:EncryptionContextKeys": ["account", "resource"]},
        "Null": {"kms:EncryptionContextKeys": "false"},
    }
    assert whole("Boundary") == {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "PolicyDocument": document(
                allow(
                    "Records",
                    [arn(f"dynamodb:{HERE}:table/{NAME}"), arn(f"dynamodb:{HERE}:table/{NAME}-*")],
                    in_a_function,
                    dynamodb="DeleteItem GetItem PutItem Query UpdateItem",
                ),
                allow("SecretsOfTheService", KEYS, {**in_a_function, **of_the_service}, kms="Decrypt Encrypt"),
                allow("Logs", arn(f"{LOGS}:*"), logs="CreateLogStream PutLogEvents"),
            )
        },
    }


def test_the_gateway_may_write_logs_and_may_so_without_this_stack() -> None:
    writing = "iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
    assert whole("GatewayLogging") == {
        "Type": "AWS::ApiGateway::Account",
        "Condition": "SetsGatewayLogging",
        "Properties": {"CloudWatchRoleArn": {"Fn::GetAtt": ["GatewayLoggingRole", "Arn"]}},
    }
    assert whole("GatewayLoggingRole") == {
        "Type": "AWS::IAM::Role",
        "Condition": "SetsGatewayLogging",
        **KEPT,
        "Properties": {
            "AssumeRolePolicyDocument": trust({"Service": "apigateway.amazonaws.com"}),
            "ManagedPolicyArns": [arn(writing)],
        },
    }


def test_what_an_account_has_already_is_not_made_again() -> None:
    assert TEMPLATE["Conditions"] == {
        "HasNoProvider": {"Fn::Equals": [{"Ref": "OidcProviderArn"}, ""]},
        "SetsGatewayLogging": {"Fn::Equals": [{"Ref": "SetGatewayLogging"}, "true"]},
    }
    defaults = {name: said.get("Default") for name, said in TEMPLATE["Parameters"].items()}
    assert defaults == {"Environment": None, "Repository": None, "OidcProviderArn": "", "SetGatewayLogging": "true"}
