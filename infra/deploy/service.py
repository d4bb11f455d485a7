"""A package that was made, into the cloud that the environment names: two stacks."""

import json
from collections.abc import Mapping
from pathlib import Path

from chalicelib import domains
from chalicelib.model import names
from chalicelib.storage import aws, dynamodb
from infra import CommandError
from infra.deploy import data_stack, indexes, stacks


def deploy(
    package: Path, name: str, bucket: str, parameters: Mapping[str, str], *, role: str | None = None
) -> dict[str, str]:
    """Deploy both stacks, <name>-data and <name>-api, and return their outputs and the parameters of the second.

    Parameters that are absent keep their values. Raises CommandError, also if the update would change several indexes
    of the table; aws.AwsError.
    """
    indexes.require_single_change(name)
    key, _ = stacks.upload((package / "deployment.zip").read_bytes(), bucket)  # first: it changes nothing if it fails
    data = data_stack.deploy(name, parameters, role=role)
    template = json.loads((package / "sam.json").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    own = {"TableName": data["TableName"], "KeyArn": data["KeyArn"]}
    had = stacks.parameters(f"{name}-api")  # with perhaps another table, one that was restored
    kept = {parameter: had[parameter] for parameter in template["Parameters"] if parameter in had}
    of_api = {parameter: value for parameter, value in parameters.items() if parameter not in data_stack.PARAMETERS}
    given = {**own, **kept, **of_api}
    api = stacks.deploy(json.dumps(template), f"{name}-api", given, bucket=bucket, role=role)
    return {**data, **given, **api}


def settings_difference(name: str, parameters: Mapping[str, str]) -> str:
    """Return how TunnelDomain and TcpPorts would differ from the settings of the table, "" if they would not.

    A deployer without the right to read the table compares them with those of the stack. Raises CommandError,
    aws.Unavailable.
    """
    had = stacks.parameters(f"{name}-api")
    known = {**had, **parameters}
    wanted = _settings(known)
    with dynamodb.in_table(known.get("TableName", name)):
        try:
            return names.describe_difference_from(*wanted)
        except aws.Misconfigured:  # no right, or no table before the first deployment
            return names.compare_settings(_settings(had), wanted) if had else ""


def _settings(parameters: Mapping[str, str]) -> tuple[str, str]:
    """Return the TUNNEL_DOMAIN and TCP_PORTS that parameters set. Raises CommandError."""
    domain = parameters.get("TunnelDomain", "").strip()
    try:
        return domains.normal(domain) if domain else "", parameters.get("TcpPorts", "").strip()
    except ValueError as error:
        raise CommandError(f"TunnelDomain={domain} cannot be used: it {error}.") from None
