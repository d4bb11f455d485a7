"""A package that was made, into the cloud that the environment names: two stacks."""

import json
from collections.abc import Mapping
from pathlib import Path

from infra.deploy import stacks


def deploy(
    package: Path, name: str, bucket: str, parameters: Mapping[str, str], *, role: str | None = None
) -> dict[str, str]:
    """Deploy both stacks, <name>-data and <name>-api, and return their outputs. Raises CommandError, aws.AwsError."""
    key, _ = stacks.upload((package / "deployment.zip").read_bytes(), bucket)  # first: it changes nothing if it fails
    data = stacks.deploy(stacks.DATA.read_text(), f"{name}-data", {"Name": name}, role=role)
    template = json.loads((package / "sam.json").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    own = {"TableName": data["TableName"], "KeyArn": data["KeyArn"]}
    had = stacks.parameters(f"{name}-api")  # perhaps another table, one that was restored
    given = {**own, **{name: had[name] for name in own if name in had}, **parameters}
    api = stacks.deploy(
        json.dumps(template), f"{name}-api", given, template["Parameters"].keys(), bucket=bucket, role=role
    )
    return {**data, **given, **api}
