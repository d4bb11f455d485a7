"""Deploy a package as two stacks into the cloud that the environment names."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chalicelib import domains
from chalicelib.model import migrations
from chalicelib.model.names import base_names
from chalicelib.storage.client import aws, dynamodb
from infra import CommandError
from infra.deploy import data_stack, indexes, stacks

_FORMATS = ("RecordFormat", "RecordsEdition")  # the name of a parameter since 3.0.0, and its name before
# Values of parameters for stacks that were deployed before these parameters existed.
_OF_OLDER_STACKS = {"RecordFormat": "2", "DefaultEndpoint": "on"}


def deploy(
    package: Path,
    name: str,
    bucket: str,
    parameters: Mapping[str, str],
    *,
    role: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Deploy <name>-data and <name>-api; return their outputs and the API's parameters.

    Absent parameters and tags keep their values. Raises aws.AwsError, and CommandError, for example if version 1.x
    wrote the table.
    """
    indexes.require_supported_stack(name)
    # The API may use another table than the data stack's, for example a restored one.
    deployed = stacks.parameters(f"{name}-api")
    require_supported_table({"TableName": name, **deployed, **parameters}["TableName"])
    _require_one_header({**deployed, **parameters})
    # The upload comes first, because its failure changes nothing.
    key, _ = stacks.upload((package / "deployment.zip").read_bytes(), bucket)
    data = data_stack.deploy(name, parameters, role=role, tags=tags)
    template = json.loads((package / "sam.json").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = {"Bucket": bucket, "Key": key}
    table_parameters = {"TableName": data["TableName"], "KeyArn": data["KeyArn"]}
    accepted = template["Parameters"]
    deployed_values = _rename({**_OF_OLDER_STACKS, **deployed}, accepted) if deployed else {}
    unchanged = {parameter: deployed_values[parameter] for parameter in accepted if parameter in deployed_values}
    changed = {parameter: value for parameter, value in parameters.items() if parameter not in data_stack.PARAMETERS}
    values = {**table_parameters, **unchanged, **_rename(changed, accepted)}
    if values.get("SnapStart") == "on":
        _require_snapshots(template)
    body = _renew_versions(json.dumps(template), values)
    api = stacks.deploy(body, f"{name}-api", values, bucket=bucket, role=role, tags=tags)
    return {**data, **values, **api}


def _require_one_header(values: Mapping[str, str]) -> None:
    """Raise CommandError for several VersionHeaders, if the gateway caches the authorizer's answers.

    The headers are a part of the cache's key, and the gateway refuses requests that lack a part of the key.
    """
    if values.get("AuthorizerCacheSeconds", "0") != "0" and "," in values.get("VersionHeaders", ""):
        raise CommandError(
            "With AuthorizerCacheSeconds, the gateway requires every header in VersionHeaders: give only one header,"
            " or AuthorizerCacheSeconds=0."
        )


def _require_snapshots(template: Mapping[str, Any]) -> None:
    """Raise CommandError if a function's Python is too old for SnapStart."""
    types = ("AWS::Serverless::Function",)
    functions = [resource["Properties"] for resource in template["Resources"].values() if resource["Type"] in types]
    if outdated := {function["Runtime"] for function in functions} & {"python3.11"}:
        raise CommandError(
            f"SnapStart needs Python 3.12 or newer, and the package is for {', '.join(outdated)}:"
            " make it with a newer Python."
        )


def _renew_versions(template: str, values: Mapping[str, str]) -> str:
    """Return a template in which functions get new versions if the code, a setting or the template has changed.

    A version is a copy of a function that never changes. CloudFormation makes a version only for a new name.
    """
    digest = hashlib.sha256(f"{template} {sorted(values.items())}".encode()).hexdigest()[:12]
    return re.sub('(APIHandler|Authorizer)Version(?=[."])', rf"\1Version{digest}", template)


def require_supported_table(name: str) -> None:
    """Raise CommandError if version 1.x of this service wrote the table. Tables that cannot be read are not checked.

    Raises aws.Unavailable.
    """
    # Misconfigured: the caller may not read the table, or the table does not exist before the first deployment
    with dynamodb.use_table(name), suppress(aws.Misconfigured):
        try:
            migrations.require_supported_table()
        except migrations.OutdatedTable as outdated:
            raise CommandError(str(outdated)) from None


def settings_difference(name: str, parameters: Mapping[str, str]) -> str:
    """Return how TunnelDomain and TcpPorts differ from the values in the table, or "".

    If the caller may not read the table, the settings are compared with the stack's parameters. Raises CommandError,
    aws.Unavailable.
    """
    deployed = stacks.parameters(f"{name}-api")
    combined = {**deployed, **parameters}
    settings = _settings(combined)
    with dynamodb.use_table(combined.get("TableName", name)):
        try:
            return base_names.describe_difference_from(*settings)
        except aws.Misconfigured:  # the caller may not read the table, or the table does not exist yet
            return base_names.compare_settings(_settings(deployed), settings) if deployed else ""


def _rename(parameters: Mapping[str, str], accepted: Collection[str]) -> dict[str, str]:
    """Rename the parameter RecordFormat or RecordsEdition to the name that the template accepts."""
    name = next((name for name in _FORMATS if name in accepted), None)
    return {name if name and parameter in _FORMATS else parameter: value for parameter, value in parameters.items()}


def _settings(parameters: Mapping[str, str]) -> tuple[str, str]:
    """Return the TUNNEL_DOMAIN and TCP_PORTS that parameters set. Raises CommandError."""
    domain = parameters.get("TunnelDomain", "").strip()
    try:
        return domains.normalize(domain) if domain else "", parameters.get("TcpPorts", "").strip()
    except ValueError as error:
        raise CommandError(f"TunnelDomain={domain} cannot be used: it {error}.") from None
