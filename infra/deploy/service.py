"""Deploy a package as two stacks into the cloud that the environment names."""

import json
from collections.abc import Mapping
from pathlib import Path

from chalicelib import domains
from chalicelib.model.names import base_names
from chalicelib.storage.client import aws, dynamodb
from infra import CommandError
from infra.deploy import data_stack, indexes, stacks


def deploy(
    package: Path, name: str, bucket: str, parameters: Mapping[str, str], *, role: str | None = None
) -> dict[str, str]:
    """Deploy <name>-data and <name>-api; return their outputs and the API's parameters.

    Absent parameters keep their values. Raises aws.AwsError, and CommandError, for example if the update would change
    several indexes of the table.
    """
    indexes.require_single_change(name)
    key, _ = stacks.upload(
        (package / "deployment.zip").read_bytes(), bucket
    )  # first, because its failure changes nothing
    data = data_stack.deploy(name, parameters, role=role)
    template = json.loads((package / "sam.json").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    own = {"TableName": data["TableName"], "KeyArn": data["KeyArn"]}
    deployed = stacks.parameters(f"{name}-api")  # they may name another table, which was restored
    unchanged = {parameter: deployed[parameter] for parameter in template["Parameters"] if parameter in deployed}
    changed = {parameter: value for parameter, value in parameters.items() if parameter not in data_stack.PARAMETERS}
    values = {**own, **unchanged, **changed}
    api = stacks.deploy(json.dumps(template), f"{name}-api", values, bucket=bucket, role=role)
    return {**data, **values, **api}


def settings_difference(name: str, parameters: Mapping[str, str]) -> str:
    """Return how TunnelDomain and TcpPorts differ from the table's, or "".

    Without the right to read the table they are compared with the stack's. Raises CommandError, aws.Unavailable.
    """
    deployed = stacks.parameters(f"{name}-api")
    combined = {**deployed, **parameters}
    wanted = _settings(combined)
    with dynamodb.in_table(combined.get("TableName", name)):
        try:
            return base_names.describe_difference_from(*wanted)
        except aws.Misconfigured:  # no right, or no table before the first deployment
            return base_names.compare_settings(_settings(deployed), wanted) if deployed else ""


def _settings(parameters: Mapping[str, str]) -> tuple[str, str]:
    """Return the TUNNEL_DOMAIN and TCP_PORTS that parameters set. Raises CommandError."""
    domain = parameters.get("TunnelDomain", "").strip()
    try:
        return domains.normal(domain) if domain else "", parameters.get("TcpPorts", "").strip()
    except ValueError as error:
        raise CommandError(f"TunnelDomain={domain} cannot be used: it {error}.") from None
