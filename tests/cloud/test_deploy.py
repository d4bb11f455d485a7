"""Deploying over what is deployed, and what the person at the terminal reads when it cannot be done."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra.local import cloud
from tests.conftest import ROOT, Served, free_port

Deploy = Callable[..., subprocess.CompletedProcess[str]]
PACKAGE = str(ROOT / "build" / "dev")
BUCKET = ("--bucket", "tunnel-edge-packages")
ALARM = {
    "Type": "AWS::CloudWatch::Alarm",
    "Properties": {"EvaluationPeriods": 1, "ComparisonOperator": "LessThanThreshold"},
}
UNSUPPORTED = {"Metrics": [{"Id": "all", "Expression": "1"}]}  # which the emulated cloud cannot do, and says so
SUPPORTED = {"MetricName": "m", "Namespace": "n", "Period": 60, "Statistic": "Sum", "Threshold": 1}


def run(url: str, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **cloud.settings(url), **more}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def deploy(deployed: Served) -> Deploy:
    """`python -m infra.deploy`, into the cloud where the package is deployed."""
    return lambda *arguments: run(deployed.cloud_url, "-m", "infra.deploy", *arguments)


def parameters(url: str, stack: str) -> dict[str, str]:
    described = boto3.client("cloudformation", endpoint_url=url).describe_stacks(StackName=stack)["Stacks"][0]
    return {given["ParameterKey"]: given["ParameterValue"] for given in described["Parameters"]}


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_what_is_not_named_stays_and_what_is_printed_is_in_use(deploy: Deploy, deployed: Served) -> None:
    before = parameters(deployed.cloud_url, "tunnel-edge-api")
    restored = printed(deploy(PACKAGE, *BUCKET, "TableName=tunnel-edge-restored", "LogLevel=ERROR"))
    assert restored["TableName"] == "tunnel-edge-restored"
    again = printed(deploy(PACKAGE, *BUCKET))
    assert again["TableName"] == "tunnel-edge-restored"
    changed = {"TableName": "tunnel-edge-restored", "LogLevel": "ERROR"}
    assert parameters(deployed.cloud_url, "tunnel-edge-api") == {**before, **changed}
    back = printed(deploy(PACKAGE, "TableName=tunnel-edge", "LogLevel=INFO", *BUCKET))
    assert {"ApiUrl", "EndpointURL", "KeyArn", "RestAPIId", "TableName"} <= back.keys()
    assert parameters(deployed.cloud_url, "tunnel-edge-api") == before
    assert deployed.client().get("/api_keys").status == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere", *BUCKET), "There is no package in nowhere: make it with 'make package'.\n"),
        ((PACKAGE, *BUCKET, "LogLevel"), "'LogLevel' is not of the form NAME=VALUE.\n"),
        ((PACKAGE, "--bucket", ""), "'' is not the name of a bucket.\n"),
        (
            (PACKAGE, "--bucket", "not-there", "--name", "not-begun"),
            "The cloud refused: An error occurred (NoSuchBucket)",
        ),
        ((PACKAGE, *BUCKET, "LogLevel=LOUD"), "The cloud refused: An error occurred (ValidationError)"),
    ],
    ids=["package", "form", "name", "bucket", "value"],
)
def test_what_stands_in_the_way_is_told_in_a_sentence(
    deploy: Deploy, deployed: Served, arguments: list[str], sentence: str
) -> None:
    done = deploy(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    stacks = boto3.client("cloudformation", endpoint_url=deployed.cloud_url).describe_stacks()["Stacks"]
    assert "not-begun-data" not in [stack["StackName"] for stack in stacks]


def test_a_cloud_that_is_not_there_is_told_in_a_sentence() -> None:
    done = run(f"http://127.0.0.1:{free_port()}", "-m", "infra.deploy", PACKAGE, *BUCKET)
    assert (done.returncode, done.stderr) == (1, "The cloud cannot be used (EndpointConnectionError).\n")


def test_a_profile_that_is_not_there_is_told_in_a_sentence() -> None:
    done = run("", "-m", "infra.deploy", PACKAGE, *BUCKET, AWS_PROFILE="nobody")
    assert (done.returncode, done.stderr) == (1, "The cloud cannot be used (ProfileNotFound).\n")


@pytest.mark.parametrize("file", ["sam.json", "deployment.zip"])
def test_half_a_package_is_none(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("{}")
    done = run("", "-m", "infra.deploy", str(tmp_path), *BUCKET)
    assert (done.returncode, done.stderr) == (1, f"There is no package in {tmp_path}: make it with 'make package'.\n")


def test_a_stack_that_fails_says_why_and_can_be_deployed_again(deployed: Served, tmp_path: Path) -> None:
    def stack(properties: dict[str, Any], name: str) -> subprocess.CompletedProcess[str]:
        alarm = {**ALARM, "Properties": {**ALARM["Properties"], **properties}}
        file = tmp_path / "template.json"
        file.write_text(json.dumps({"Resources": {"TheAlarm": alarm}}))
        script = f"""
from pathlib import Path
from infra import CommandError
from infra.deploy import stacks
try:
    print(stacks.deploy(Path({str(file)!r}).read_text(), {name!r}, {{}}))
except CommandError as error:
    print(error)
"""
        return run(deployed.cloud_url, "-c", script)

    for name in ("tunnel-edge-fails-at-once", "tunnel-edge-fails-later"):
        if name.endswith("later"):
            assert stack(SUPPORTED, name).stdout == "{}\n"
        failed = stack(UNSUPPORTED, name).stdout.splitlines()
        assert failed[0].endswith(" failed.")
        assert any("TheAlarm: " in reason and "not supported" in reason for reason in failed[1:])
        assert stack(SUPPORTED, name).stdout == "{}\n"
