"""`python -m infra.deploy`, over what is deployed, and what it says when it cannot deploy."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from tests.cloud import upgrades
from tests.conftest import ROOT, Served, client_of
from tests.forked import Program

COMMON = {"EvaluationPeriods": 1, "ComparisonOperator": "LessThanThreshold"}
ALARM = {**COMMON, "MetricName": "m", "Namespace": "n", "Period": 60, "Statistic": "Sum", "Threshold": 1}
TEXT = {"Type": "String"}
PACKAGE = str(ROOT / "build" / "dev")


class Deploy(Protocol):
    """A function that deploys a package into the emulated cloud."""

    def __call__(self, package: str, *parameters: str) -> tuple[int, str, str]: ...


@pytest.fixture(scope="module")
def deploy(deployed_api: Served) -> Iterator[Deploy]:
    """Yield a function that deploys. It returns the exit status, and what was said on both channels.

    `-` among its parameters stands for no topic of alarms.
    """

    def run(package: str, *parameters: str) -> tuple[int, str, str]:
        has_topic = any(argument.startswith("AlarmTopicArn=") or argument == "-" for argument in parameters)
        arguments = [
            argument for argument in (*parameters, *([] if has_topic else ["AlarmTopicArn=none"])) if argument != "-"
        ]
        settings = {**os.environ, **deployed_api.cloud}
        result = program.run(package, *arguments, "--bucket", "tunnel-edge-packages", environment=settings, folder=ROOT)
        return result.returncode, result.stdout, result.stderr

    program = Program("infra.deploy", "boto3")
    yield run
    program.close()


def parameters(api: Served, name: str = "tunnel-edge-api") -> dict[str, str]:
    client = client_of(api.cloud, "cloudformation")
    (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    return {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in stack["Parameters"]}


def test_what_is_not_named_stays_and_what_is_printed_is_in_use(deploy: Deploy, deployed_api: Served) -> None:
    before = parameters(deployed_api)
    status, output, _ = deploy(PACKAGE, "TableName=tunnel-edge-restored")
    assert (status, "TableName=tunnel-edge-restored" in output.splitlines()) == (0, True)
    assert parameters(deployed_api) == {**before, "TableName": "tunnel-edge-restored"}
    status, output, _ = deploy(PACKAGE, "TableName=tunnel-edge")
    outputs = dict(line.split("=", 1) for line in output.splitlines())
    assert {"ApiUrl", "EndpointURL", "KeyArn", "RestAPIId", "TableName"} <= outputs.keys()
    assert (status, parameters(deployed_api)) == (0, before)
    assert deployed_api.client().get("/api_keys").status == 200


def test_what_stands_in_the_way_is_told_in_a_sentence(deploy: Deploy) -> None:
    assert deploy("nowhere") == (1, "", "There is no package in nowhere: make it with 'make package'.\n")
    *result, why = deploy(PACKAGE, "LogLevel=LOUD")
    assert (result, why.count("\n")) == ([1, ""], 1)
    assert why.startswith("AWS refused the request: An error occurred (")


def test_a_key_is_of_one_region_where_that_was_said_and_of_many_else_for_ever(
    deploy: Deploy, deployed_api: Served, tmp_path: Path
) -> None:
    package = small_package(tmp_path)
    single, many = ["MultiRegion=false"], ["MultiRegion=true"]
    for name, arguments, other, is_of_many in (("old", single, many, False), ("new", [], single, True)):
        of = ("--name", f"tunnel-edge-{name}")
        assert deploy(package, *arguments, *of)[0] == 0
        assert deploy(package, *of)[0] == 0
        key = client_of(deployed_api.cloud, "kms").describe_key(KeyId=f"alias/tunnel-edge-{name}")["KeyMetadata"]
        assert key["MultiRegion"] is is_of_many
        status, _, errors = deploy(package, *other, *of)
        assert (status, "MultiRegion cannot be changed" in errors) == (1, True)
        assert deploy(package, *arguments, *of)[0] == 0


def small_package(folder: Path, **more: dict[str, Any]) -> str:
    """Return the folder of a package that is deployed in a moment, with more parameters."""
    (folder / "deployment.zip").touch()
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": ALARM}
    declared = {"TableName": TEXT, "KeyArn": TEXT, "AlarmTopicArn": {**TEXT, "Default": ""}, **more}
    (folder / "sam.json").write_text(json.dumps({"Parameters": declared, "Resources": {"TheAlarm": alarm}}))
    return str(folder)


def test_a_deployment_without_a_topic_for_alarms_is_refused(deploy: Deploy, tmp_path: Path) -> None:
    package, name = small_package(tmp_path), ("--name", "tunnel-edge-alarms")
    topic = "AlarmTopicArn=arn:aws:sns:us-east-1:1:a"
    for argument, expected in (
        ("-", 1),
        ("AlarmTopicArn=", 1),
        (topic, 0),
        ("-", 0),
        ("AlarmTopicArn=none", 0),
        ("-", 0),
    ):
        status, _, errors = deploy(package, argument, *name)
        assert (argument, status, errors.startswith("AlarmTopicArn is empty, ")) == (argument, expected, expected == 1)
        assert errors.count("\n") == expected


def test_cached_callers_with_several_version_headers_are_refused(deploy: Deploy, tmp_path: Path) -> None:
    number = {"Type": "Number", "Default": 0}
    package = small_package(
        tmp_path, AuthorizerCacheSeconds=number, VersionHeaders={**TEXT, "Default": "Service-Version"}
    )
    cached, two, name = "AuthorizerCacheSeconds=60", "VersionHeaders=Api-Version,Service-Version", "tunnel-edge-headers"
    for argument, expected in ((cached, 0), (two, 1), ("AuthorizerCacheSeconds=0", 0), (two, 0), (cached, 1)):
        status, _, errors = deploy(package, "AlarmTopicArn=none", argument, "--name", name)
        assert (argument, status, errors.startswith("With AuthorizerCacheSeconds, ")) == (
            argument,
            expected,
            expected == 1,
        )


def test_tags_are_those_of_all_resources_and_stay(deploy: Deploy, deployed_api: Served, tmp_path: Path) -> None:
    package, name = small_package(tmp_path), ("--name", "tunnel-edge-tags")
    client = client_of(deployed_api.cloud, "cloudformation")
    for arguments in (("--tag", "team=edge", "--tag", "cost=a=b"), ()):
        assert deploy(package, *arguments, *name)[0] == 0
        for stack in ("tunnel-edge-tags-data", "tunnel-edge-tags-api"):
            (described,) = client.describe_stacks(StackName=stack)["Stacks"]
            tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
            assert (stack, arguments, tags) == (stack, arguments, {"team": "edge", "cost": "a=b"})
    assert deploy(package, "--tag", "team", *name)[0] == 1


def test_a_stack_of_1_x_is_refused_and_one_of_2_0_0_is_updated(
    deploy: Deploy, deployed_api: Served, tmp_path: Path
) -> None:
    package, name, stack = small_package(tmp_path), "tunnel-edge-jump", "tunnel-edge-jump-data"
    cloudformation = client_of(deployed_api.cloud, "cloudformation")
    (_, first), (_, second) = upgrades.history()[:2]
    request = {"StackName": stack, "Parameters": [{"ParameterKey": "Name", "ParameterValue": name}]}
    templates = [upgrades.git("show", f"{commit}:infra/deploy/data.yaml").decode() for commit in (first, second)]
    cloudformation.create_stack(**request, TemplateBody=templates[0])
    cloudformation.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    refusal = f"The stack {stack} was deployed by 1.x: upgrade it to 2.0.0 first ('Upgrading' in infra/README.md).\n"
    assert deploy(package, "--name", name) == (1, "", refusal)
    cloudformation.update_stack(**request, TemplateBody=templates[1])
    cloudformation.get_waiter("stack_update_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    client_of(deployed_api.cloud, "dynamodb").put_item(
        TableName=name, Item={"scope": {"S": "accounts"}, "id": {"S": "acct_1"}, "body": {"M": {}}}
    )
    status, output, why = deploy(package, "--name", name)
    assert (status, output, why.startswith(f"The table {name} has records of 1.x, ")) == (1, "", True)
    client_of(deployed_api.cloud, "dynamodb").delete_item(
        TableName=name, Key={"scope": {"S": "accounts"}, "id": {"S": "acct_1"}}
    )
    assert deploy(package, "--name", name)[0] == 0
    table = client_of(deployed_api.cloud, "dynamodb").describe_table(TableName=name)["Table"]
    assert {index["IndexName"] for index in table["GlobalSecondaryIndexes"]} == {"by-resource", "by-actor"}


# The parameter in the templates that are deployed one after the other ("" for none), what is given, and the result.
FORMATS = [
    [("RecordFormat", "", "3"), ("RecordFormat", "RecordFormat=2", "2"), ("RecordFormat", "", "2")],  # a new stack
    [("", "", None), ("RecordFormat", "", "2"), ("", "", None), ("RecordFormat", "", "2")],  # 2.0.0, and back to it
    [("RecordsEdition", "", "3"), ("RecordFormat", "", "3")],
    [("RecordsEdition", "RecordsEdition=2", "2"), ("RecordFormat", "", "2"), ("RecordsEdition", "", "2")],
    [("", "", None), ("RecordFormat", "RecordsEdition=3", "3")],  # as PARAMETERS of a pipeline may name it
]


@pytest.mark.parametrize("steps", FORMATS)
def test_a_stack_keeps_the_format_of_its_records(
    deploy: Deploy, deployed_api: Served, tmp_path: Path, steps: list[tuple[str, str, str | None]]
) -> None:
    name = f"tunnel-edge-{uuid4().hex[:8]}"
    for parameter, argument, expected in steps:
        package = small_package(tmp_path, **{parameter: {"Type": "Number", "Default": 3}} if parameter else {})
        status, _, why = deploy(package, *filter(None, [argument]), "--name", name)
        assert status == 0, why
        assert parameters(deployed_api, f"{name}-api").get(parameter) == expected


def test_a_stack_that_fails_says_why_and_can_be_deployed_again(deploy: Deploy, tmp_path: Path) -> None:
    unsupported = {"Metrics": [{"Id": "all", "Expression": "1"}]}  # which the emulated cloud cannot do, and says so
    (tmp_path / "deployment.zip").touch()
    template = json.loads((ROOT / "build" / "dev" / "sam.json").read_text())

    def with_alarm(properties: dict[str, Any]) -> tuple[int, str, str]:
        alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}
        template_with_alarm = {"Parameters": template["Parameters"], "Resources": {"TheAlarm": alarm}}
        (tmp_path / "sam.json").write_text(json.dumps(template_with_alarm))
        return deploy(str(tmp_path), "--name", "tunnel-edge-fails")

    status, _, errors = with_alarm({**COMMON, **unsupported})
    assert status == 1
    assert " failed.\n  TheAlarm: " in errors
    assert with_alarm(ALARM)[0] == 0
