"""`python -m infra.deploy`: a package that was made, into the cloud that the environment names."""

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

from chalicelib.storage.aws import AwsError
from infra import stacks
from infra.cloud import Trouble


def main(arguments: list[str]) -> None:
    """Deploy and print what the stacks say of themselves; one sentence and exit status 1 when it cannot be done."""
    parser = ArgumentParser(prog="python -m infra.deploy", description=__doc__)
    parser.add_argument("package", type=Path, help="the folder that make package made, for example build/prod")
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters of infra/api.yaml")
    parser.add_argument("--name", default="tunnel-edge", help="what the stacks and the table are called")
    parser.add_argument("--bucket", required=True, help="where the package is uploaded")
    parser.add_argument("--role", help="the role that CloudFormation works with (default: the caller's own rights)")
    asked = parser.parse_intermixed_args(arguments)
    try:
        if not all((asked.package / file).exists() for file in ("sam.json", "deployment.zip")):
            raise Trouble(f"There is no package in {asked.package}: make it with 'make package'.")
        if not re.fullmatch("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", asked.bucket):
            raise Trouble(f"{asked.bucket!r} is not the name of a bucket.")
        parameters = dict(map(_parameter, asked.parameters))
        said = deploy(asked.package, asked.name, asked.bucket, parameters, role=asked.role)
    except Trouble as trouble:
        sys.exit(str(trouble))
    except AwsError as error:
        sys.exit(f"The cloud cannot be used ({error.code}).")
    print("\n".join(f"{name}={value}" for name, value in said.items()))


def deploy(
    package: Path, name: str, bucket: str, parameters: Mapping[str, str], *, role: str | None = None
) -> dict[str, str]:
    """Both stacks, <name>-data and <name>-api; their outputs. Raises Trouble, aws.AwsError."""
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


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and re.fullmatch("[A-Za-z0-9]+", name)):
        raise Trouble(f"{text!r} is not of the form NAME=VALUE.")
    return name, value


if __name__ == "__main__":
    main(sys.argv[1:])
