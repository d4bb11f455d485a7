"""`python -m infra.deploy`, over what is deployed, and what it says when it cannot deploy."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, Served, client_of

COMMON = {"EvaluationPeriods": 1, "ComparisonOperator": "LessThanThreshold"}
ALARM = {**COMMON, "MetricName": "m", "Namespace": "n", "Period": 60, "Statistic": "Sum", "Threshold": 1}
TEXT = {"Type": "String"}
PACKAGE = str(ROOT / "build" / "dev")


def deploy(api: Served, package: str, *parameters: str) -> tuple[int, str, str]:
    """Return the exit status, and what was said on both channels."""
    command = [sys.executable, "-m", "infra.deploy", package, *parameters, "--bucket", "tunnel-edge-packages"]
    environment = {**os.environ, **api.cloud}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def parameters(api: Served) -> dict[str, str]:
    client = client_of(api.cloud, "cloudformation")
    (stack,) = client.describe_stacks(StackName="tunnel-edge-api")["Stacks"]
    return {given["ParameterKey"]: given["ParameterValue"] for given in stack["Parameters"]}


def test_what_is_not_named_stays_and_what_is_printed_is_in_use(deployed: Served) -> None:
    before = parameters(deployed)
    status, said, _ = deploy(deployed, PACKAGE, "TableName=tunnel-edge-restored")
    assert (status, "TableName=tunnel-edge-restored" in said.splitlines()) == (0, True)
    assert parameters(deployed) == {**before, "TableName": "tunnel-edge-restored"}
    status, said, _ = deploy(deployed, PACKAGE, "TableName=tunnel-edge")
    printed = dict(line.split("=", 1) for line in said.splitlines())
    assert {"ApiUrl", "EndpointURL", "KeyArn", "RestAPIId", "TableName"} <= printed.keys()
    assert (status, parameters(deployed)) == (0, before)
    assert deployed.client().get("/api_keys").status == 200


def test_what_stands_in_the_way_is_told_in_a_sentence(deployed: Served) -> None:
    assert deploy(deployed, "nowhere") == (1, "", "There is no package in nowhere: make it with 'make package'.\n")
    *refused, why = deploy(deployed, PACKAGE, "LogLevel=LOUD")
    assert (refused, why.count("\n")) == ([1, ""], 1)
    assert why.startswith("The cloud refused: An error occurred (")


def test_a_key_is_of_one_region_where_that_was_said_and_of_many_else_for_ever(deployed: Served, tmp_path: Path) -> None:
    (tmp_path / "deployment.zip").touch()
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": ALARM}
    template = {"Parameters": {"TableName": TEXT, "KeyArn": TEXT}, "Resources": {"TheAlarm": alarm}}
    (tmp_path / "sam.json").write_text(json.dumps(template))
    one, many = ["MultiRegion=false"], ["MultiRegion=true"]
    for name, given, other, is_of_many in (("old", one, many, False), ("new", [], one, True)):
        of = ("--name", f"tunnel-edge-{name}")
        assert deploy(deployed, str(tmp_path), *given, *of)[::2] == (0, "")
        assert deploy(deployed, str(tmp_path), *of)[::2] == (0, "")
        key = client_of(deployed.cloud, "kms").describe_key(KeyId=f"alias/tunnel-edge-{name}")["KeyMetadata"]
        assert key["MultiRegion"] is is_of_many
        status, _, said = deploy(deployed, str(tmp_path), *other, *of)
        assert (status, "MultiRegion cannot be changed" in said) == (1, True)
        assert deploy(deployed, str(tmp_path), *given, *of)[::2] == (0, "")


def test_a_stack_that_fails_says_why_and_can_be_deployed_again(deployed: Served, tmp_path: Path) -> None:
    unsupported = {"Metrics": [{"Id": "all", "Expression": "1"}]}  # which the emulated cloud cannot do, and says so
    (tmp_path / "deployment.zip").touch()
    template = json.loads((ROOT / "build" / "dev" / "sam.json").read_text())

    def with_alarm(properties: dict[str, Any]) -> tuple[int, str, str]:
        alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}
        made = {"Parameters": template["Parameters"], "Resources": {"TheAlarm": alarm}}
        (tmp_path / "sam.json").write_text(json.dumps(made))
        return deploy(deployed, str(tmp_path), "--name", "tunnel-edge-fails")

    status, _, said = with_alarm({**COMMON, **unsupported})
    assert status == 1
    assert " failed.\n  TheAlarm: " in said
    assert with_alarm(ALARM)[::2] == (0, "")
