"""The evaluator of policies against the examples that AWS publishes, in its user guides of IAM, DynamoDB and KMS."""

from typing import Any

import pytest

from tests.cloud.evaluator import Call, allows

BUCKET, TABLE = "arn:aws:s3:::amzn-s3-demo-bucket", "arn:aws:dynamodb:us-west-2:123456789012:table/GameScores"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def allow(action: Any, resource: Any, **condition: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": action,
        "Resource": resource,
        **({"Condition": condition} if condition else {}),
    }


def when(operator: str, key: str, value: Any, context: dict[str, Any]) -> bool:
    """Tell whether a statement with one condition allows a request with some condition keys."""
    return allows(Call("s3:GetObject", BUCKET, context), [allow("*", "*", **{operator: {key: value}})])


def test_all_is_denied_that_nothing_allows_and_a_denial_wins() -> None:
    """Policy evaluation logic: implicit deny, explicit allow, explicit deny."""
    statements = [allow("*", "*")]
    deny = {**allow("s3:Delete*", f"{BUCKET}/*"), "Effect": "Deny"}
    assert not allows(Call("s3:GetObject", f"{BUCKET}/a"), [])
    assert allows(Call("s3:GetObject", f"{BUCKET}/a"), [*statements, deny])
    assert not allows(Call("s3:DeleteObject", f"{BUCKET}/a"), [*statements, deny])


def test_a_boundary_allows_nothing_and_limits_all() -> None:
    """Permissions boundaries: ShirleyRodriguez may use S3, CloudWatch and EC2, and her policy grants iam:CreateUser."""
    boundary = [allow(["s3:*", "cloudwatch:*", "ec2:*"], "*")]
    user = Call("iam:CreateUser", "arn:aws:iam::123456789012:user/new")
    assert not allows(user, [allow("iam:CreateUser", "*")], boundary)
    assert not allows(Call("s3:ListAllMyBuckets", "*"), [], boundary)
    assert allows(Call("s3:ListAllMyBuckets", "*"), [allow("s3:*", "*")], boundary)
    assert not allows(user, [allow("*", "*")], [allow("*", "*"), {**allow("iam:*", "*"), "Effect": "Deny"}])


def test_actions_ignore_case_and_resources_do_not() -> None:
    """Elements Action and Resource: "iam:ListAccessKeys is the same as IAM:listaccesskeys"; * and ? are wildcards."""
    assert allows(Call("iam:ListAccessKeys", "*"), [allow("IAM:listaccesskeys", "*")])
    assert allows(Call("iam:ListAccessKeys", "*"), [allow("iam:*AccessKey*", "*")])
    assert not allows(Call("iam:ListUsers", "*"), [allow("iam:*AccessKey*", "*")])
    queue = "arn:aws:sqs:us-east-2:account-ID-without-hyphens:queue"
    assert [allows(Call("sqs:A", f"{queue}{end}"), [allow("sqs:*", f"{queue}?")]) for end in ("1", "12")] == [1, 0]
    assert not allows(Call("s3:GetObject", f"{BUCKET}/Home"), [allow("s3:*", f"{BUCKET}/home")])
    everything_but = {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}
    assert [allows(Call(action, "*"), [everything_but]) for action in ("s3:GetObject", "iam:GetUser")] == [1, 0]


TAGS = "aws:TagKeys"


@pytest.mark.parametrize(
    ("context", "all_values", "any_value"),
    [
        ({TAGS: ["environment", "cost-center"]}, True, True),
        ({TAGS: ["environment"]}, True, True),
        ({TAGS: ["environment", "dept"]}, False, True),
        ({TAGS: ["dept"]}, False, False),
        ({TAGS: []}, True, False),
        ({}, True, False),
    ],
)
def test_set_operators_of_keys_with_several_values(context: dict[str, Any], all_values: bool, any_value: bool) -> None:
    """Set operators for multivalued context keys: without the key ForAllValues holds, and ForAnyValue does not."""
    names = ["environment", "cost-center"]
    assert when("ForAllValues:StringEquals", TAGS, names, context) is all_values
    assert when("ForAnyValue:StringEquals", TAGS, names, context) is any_value


@pytest.mark.parametrize(
    ("operator", "key", "value", "context", "holds"),
    [
        # Condition operators: strings
        ("StringEquals", "aws:PrincipalTag/job-category", "iamuser-admin", {}, False),
        (
            "StringEquals",
            "aws:PrincipalTag/job-category",
            "iamuser-admin",
            {"aws:PrincipalTag/job-category": "iamuser-admin"},
            True,
        ),
        ("StringEquals", "AWS:username", "a", {"aws:UserName": "a"}, True),
        ("StringEquals", "aws:username", "a", {"aws:username": "A"}, False),
        ("StringLike", "s3:prefix", ["", "home/", "home/user/*"], {"s3:prefix": "home/user/x"}, True),
        ("StringLike", "s3:prefix", ["", "home/"], {"s3:prefix": "home/user/x"}, False),
        ("StringNotEquals", "aws:username", ["a", "b"], {"aws:username": "b"}, False),
        ("StringNotEquals", "aws:username", ["a", "b"], {"aws:username": "c"}, True),
        ("StringNotLike", "aws:username", "a*", {}, True),
        # IfExists, with and without the key
        ("StringEqualsIfExists", "aws:SourceAccount", "1", {}, True),
        ("StringEqualsIfExists", "aws:SourceAccount", "1", {"aws:SourceAccount": "2"}, False),
        # Null: "true" that the key is absent, "false" that it is there
        ("Null", "aws:TokenIssueTime", "true", {}, True),
        ("Null", "aws:TokenIssueTime", "true", {"aws:TokenIssueTime": "2020"}, False),
        ("Null", "aws:TokenIssueTime", "false", {"aws:TokenIssueTime": "2020"}, True),
        ("Null", "aws:TokenIssueTime", "false", {}, False),
        # Bool and ARNs
        ("Bool", "aws:SecureTransport", "false", {"aws:SecureTransport": "false"}, True),
        ("Bool", "aws:SecureTransport", "false", {}, False),
        (
            "ArnLike",
            "aws:SourceArn",
            "arn:aws:sns:*:123456789012:T",
            {"aws:SourceArn": "arn:aws:sns:us-east-1:123456789012:T"},
            True,
        ),
        ("ArnLike", "aws:SourceArn", "arn:aws:sns:*:T", {"aws:SourceArn": "arn:aws:sns:us-east-1:1:T"}, False),
        ("ArnEquals", "aws:SourceArn", "arn:aws:sns:*:1:T", {"aws:SourceArn": "arn:aws:sns:a:1:T"}, True),
    ],
)
def test_condition_operators(operator: str, key: str, value: Any, context: dict[str, Any], holds: bool) -> None:
    assert when(operator, key, value, context) is holds


@pytest.mark.parametrize(
    ("keys", "is_allowed"), [(["user-1"], True), (["user-2"], False), (["user-1", "user-2"], False), (None, True)]
)
def test_leading_keys_limit_the_rows_of_a_table(keys: list[str] | None, is_allowed: bool) -> None:
    """DynamoDB, fine-grained access control; without Null, a request without a key would do."""
    condition = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["user-1"]}}
    call = Call("dynamodb:GetItem", TABLE, {"dynamodb:LeadingKeys": keys} if keys else {})
    assert allows(call, [allow("dynamodb:GetItem", TABLE, **condition)]) is is_allowed
    condition["Null"] = {"dynamodb:LeadingKeys": ["false"]}
    assert allows(call, [allow("dynamodb:GetItem", TABLE, **condition)]) is (is_allowed and keys is not None)
    assert not allows(Call("dynamodb:Query", f"{TABLE}/index/TopScore"), [allow("dynamodb:*", TABLE)])


def test_a_key_is_used_with_the_encryption_context_that_is_named() -> None:
    """KMS, kms:EncryptionContext:context-key and kms:EncryptionContextKeys: the values compare with their case."""
    condition = {"StringEquals": {"kms:EncryptionContext:AppName": ["ExampleApp"]}}
    statement = allow("kms:Decrypt", KEY, **condition)
    for context, is_allowed in (({"AppName": "ExampleApp"}, True), ({"AppName": "exampleapp"}, False), ({}, False)):
        request_context: dict[str, Any] = {f"kms:EncryptionContext:{name}": value for name, value in context.items()}
        assert allows(Call("kms:Decrypt", KEY, request_context), [statement]) is is_allowed
    only = allow("kms:Decrypt", KEY, **{"ForAllValues:StringEquals": {"kms:EncryptionContextKeys": ["AppName"]}})
    assert not allows(Call("kms:Decrypt", KEY, {"kms:EncryptionContextKeys": ["AppName", "FilePath"]}), [only])


@pytest.mark.parametrize(
    "statement",
    [
        allow("*", "*", StringLikes={"a": "b"}),
        allow("*", "*", StringLike={"aws:username": "${aws:username}"}),
        allow("*", "*", StringLike={"dynamodb:LeadingKeys": "a"}),  # several values, and no set operator
        {**allow("*", "*"), "Conditions": {}},
    ],
)
def test_what_it_does_not_know_it_does_not_guess(statement: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError):
        allows(Call("s3:GetObject", BUCKET, {"aws:username": "a", "dynamodb:LeadingKeys": ["a"]}), [statement])
