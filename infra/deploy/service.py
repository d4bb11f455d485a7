"""Deploy a package as two stacks into the cloud that the environment names."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from chalicelib import domains
from chalicelib.model import migrations
from chalicelib.model.names import base_names
from chalicelib.storage.client import aws, dynamodb
from infra import CommandError
from infra.deploy import data_stack, indexes, stacks

_FORMATS = ("RecordFormat", "RecordsEdition")  # the second name is from before 3.0.0


def deploy(
    package: Path, name: str, bucket: str, parameters: Mapping[str, str], *, role: str | None = None
) -> dict[str, str]:
    """Deploy <name>-data and <name>-api; return their outputs and the API's parameters.

    Absent parameters keep their values. Raises aws.AwsError, and CommandError, for example if the update would change
    several indexes of the table.
    """
    indexes.require_single_change(name)
    deployed = stacks.parameters(f"{name}-api")  # they may name another table, which was restored
    require_supported_table({"TableName": name, **deployed, **parameters}["TableName"])
    key, _ = stacks.upload(
        (package / "deployment.zip").read_bytes(), bucket
    )  # first, because its failure changes nothing
    data = data_stack.deploy(name, parameters, role=role)
    template = json.loads((package / "sam.json").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    own = {"TableName": data["TableName"], "KeyArn": data["KeyArn"]}
    known = _with_format(deployed, template["Parameters"])
    unchanged = {parameter: known[parameter] for parameter in template["Parameters"] if parameter in known}
    changed = {name: value for name, value in parameters.items() if name not in data_stack.PARAMETERS}
    values = {**own, **unchanged, **_renamed(changed, template["Parameters"])}
    api = stacks.deploy(json.dumps(template), f"{name}-api", values, bucket=bucket, role=role)
    return {**data, **values, **api}


def require_supported_table(name: str) -> None:
    """Raise CommandError if a table has records of 1.x. Tables that cannot be read are not checked.

    Raises aws.Unavailable.
    """
    with dynamodb.in_table(name), suppress(aws.Misconfigured):  # no right, or no table before the first deployment
        try:
            migrations.require_supported_table()
        except migrations.OutdatedTable as outdated:
            raise CommandError(str(outdated)) from None


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


def _with_format(deployed: Mapping[str, str], accepted: Collection[str]) -> dict[str, str]:
    """Return the parameters of a stack with the format of its records. A stack of 2.0.0 writes format 2."""
    before = {"RecordFormat": "2"} if deployed and not {*_FORMATS} & deployed.keys() else {}
    return _renamed({**before, **deployed}, accepted)


def _renamed(parameters: Mapping[str, str], accepted: Collection[str]) -> dict[str, str]:
    """Return parameters with the format under the name that a template accepts."""
    name = next((name for name in _FORMATS if name in accepted), None)
    return {name if name and it in _FORMATS else it: value for it, value in parameters.items()}


def _settings(parameters: Mapping[str, str]) -> tuple[str, str]:
    """Return the TUNNEL_DOMAIN and TCP_PORTS that parameters set. Raises CommandError."""
    domain = parameters.get("TunnelDomain", "").strip()
    try:
        return domains.normal(domain) if domain else "", parameters.get("TcpPorts", "").strip()
    except ValueError as error:
        raise CommandError(f"TunnelDomain={domain} cannot be used: it {error}.") from None
