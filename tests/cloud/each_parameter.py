"""Each parameter of a deployment alone, and all together, in an emulated cloud: `python -m tests.cloud.each_parameter`.

Every deployment is a new one with its own table. Its API must answer a GET and a POST. With names of parameters, only
these are tried. The package is that of `make package STAGE=dev`. All parameters take five minutes. SnapStart is refused
for a package of Python 3.11, and the emulated cloud knows no associations of web ACLs.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import boto3
import httpx

from chalicelib import ids
from infra import CommandError
from infra.deploy import data_stack, service, stacks
from infra.local import cloud
from tests.conftest import ROOT, free_port

BUCKET, PACKAGE = "packages", ROOT / "build" / "dev"
OTHER_TABLE = "other-table"
_ACCOUNT = "from chalicelib.operator import accounts; print(accounts.create_account('acme', 'alice')[2])"
_VALUES = {
    "AccountBurst": "20",
    "AccountCertificatesPerSecond": "5",
    "AccountEventsPerSecond": "100",
    "AccountRequestsPerSecond": "10",
    "AcmeDirectory": "https://acme.example.com/directory",
    "AcmeDnsZone": "acme.example.com",
    "AddressRejectionsPerSecond": "5",
    "AuditDays": "30",
    "AuthorizerCacheSeconds": "60",
    "BaseUrl": "https://api.example.com",
    "DefaultEndpoint": "on",
    "DomainName": "api.example.com",
    "LogLevel": "ERROR",
    "LogRetentionDays": "30",
    "MembersActForAll": "true",
    "MemorySize": "512",
    "MetricsByRoute": "false",
    "MultiRegion": "false",
    "OidcIssuers": "https://token.actions.githubusercontent.com=repository_id",
    "OidcProxy": "http://proxy.example.com:3128",
    "OwnTableKey": "true",
    "ReadOnly": "true",
    "RecordFormat": "3",
    "ReservedConcurrency": "5",
    "SnapStart": "on",
    "StrictReferences": "true",
    "TcpPorts": "20000-20099",
    "ThrottleBurst": "500",
    "ThrottleRate": "200",
    "Tracing": "Active",
    "TunnelDomain": "t.example.com",
    "VersionHeaders": "Api-Version,Service-Version",
}
_TOGETHER = {"DomainName": ("CertificateArn",), "CertificateArn": ("DomainName",), "TableName": ("KeyArn",)}
_NOT_TOGETHER = {
    "ReadOnly",
    "SnapStart",
    "TableName",
    "KeyArn",
    "WebAclArn",
    "AuthorizerCacheSeconds",
}  # each excludes another one, or changes what the others need
_UNKNOWN = "AWS::WAFv2::WebACLAssociation"  # the emulated cloud refuses it, and so the whole stack


def main(names: list[str]) -> None:
    """Try the named parameters, or each one and then all. Exit with status 1 if one fails."""
    failures = []
    with TemporaryDirectory() as folder, _cloud(Path(folder)):
        values = _values()
        if missing := _list_declared() - {*values}:
            sys.exit(f"These parameters have no value here: {', '.join(sorted(missing))}.")
        trials = {name: _alone(name, values) for name in (names or sorted(values))}
        if not names:
            trials["all together"] = {name: value for name, value in values.items() if name not in _NOT_TOGETHER}
        for number, (title, parameters) in enumerate(trials.items()):
            before = time.monotonic()
            problem = _try(f"trial-{number}", parameters)
            print(f"{title}: {problem or 'as expected'} ({time.monotonic() - before:.0f} s)", flush=True)
            failures += [title] if problem else []
    if failures:
        sys.exit(f"{len(failures)} of {len(trials)} failed: {', '.join(failures)}.")


@contextmanager
def _cloud(folder: Path) -> Iterator[None]:
    embedded = cloud.Cloud(folder / "cloud", free_port(), AUTH="true", PERSIST_STATE="0")
    embedded.start()
    try:
        cloud.use_cloud(embedded.settings)
        stacks.make_bucket(BUCKET)
        yield
    finally:
        embedded.stop()


def _list_declared() -> set[str]:
    """Return the parameters of both stacks that a deployment accepts."""
    return {*json.loads((PACKAGE / "sam.json").read_text())["Parameters"], *data_stack.PARAMETERS}


def _values() -> dict[str, str]:
    """Return a value for each parameter. Make what the values name."""
    key = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
    iam = boto3.client("iam")
    boundary = iam.create_policy(PolicyName="boundary", PolicyDocument=_policy("*", Resource="*"))["Policy"]["Arn"]
    trust = _policy("sts:AssumeRole", Principal="*")
    role = iam.create_role(RoleName="operator", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    certificate = boto3.client("acm").request_certificate(DomainName=_VALUES["DomainName"])["CertificateArn"]
    visible = {"SampledRequestsEnabled": False, "CloudWatchMetricsEnabled": False, "MetricName": "acl"}
    acl = boto3.client("wafv2").create_web_acl(
        Name="acl", Scope="REGIONAL", DefaultAction={"Allow": {}}, VisibilityConfig=visible
    )
    other = data_stack.deploy(OTHER_TABLE, {})
    return {
        **_VALUES,
        "AlarmTopicArn": boto3.client("sns").create_topic(Name="alarms")["TopicArn"],
        "CertificateArn": certificate,
        "KeyArn": other["KeyArn"],
        "LogKeyArn": key,
        "OperatorRoleArn": role,
        "PermissionsBoundary": boundary,
        "SecondKeyArn": key,
        "TableName": other["TableName"],
        "WebAclArn": acl["Summary"]["ARN"],
    }


def _policy(action: str, **more: str) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": action, **more}})


def _alone(name: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the parameter with the others that it requires."""
    return {parameter: values[parameter] for parameter in (name, *_TOGETHER.get(name, ()))}


def _try(name: str, parameters: Mapping[str, str]) -> str:
    """Deploy with the parameters and send requests. Return what is wrong, or ""."""
    try:
        outputs = service.deploy(PACKAGE, name, BUCKET, {"AlarmTopicArn": "none", **parameters})
    except CommandError as error:
        expected = {
            "SnapStart": "SnapStart needs Python 3.12",
            "WebAclArn": f"Unrecognized resource types: [{_UNKNOWN}]",
        }
        return (
            ""
            if any(parameter in parameters and text in str(error) for parameter, text in expected.items())
            else str(error)
        )
    try:
        return _use(outputs, parameters)
    finally:
        boto3.client("cloudformation").delete_stack(StackName=f"{name}-api")  # ends the processes of its functions


def _use(outputs: Mapping[str, str], parameters: Mapping[str, str]) -> str:
    variables = {"TABLE_NAME": outputs["TableName"], "KEY_ID": outputs["KeyArn"]}
    edge = {"TUNNEL_DOMAIN": parameters.get("TunnelDomain", ""), "TCP_PORTS": parameters.get("TcpPorts", "")}
    process = subprocess.run(
        [sys.executable, "-c", _ACCOUNT],
        cwd=ROOT, env={**os.environ, **variables, **edge}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if process.returncode:
        return f"no account: {process.stderr[-500:]}"
    url = f"{os.environ['AWS_ENDPOINT_URL']}/restapis/{outputs['RestAPIId']}/dev/_user_request_"
    headers = {"Authorization": f"Bearer {process.stdout.strip()}", "Service-Version": "2"}
    may_write = parameters.get("ReadOnly") != "true"
    with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
        id = ids.new("bkdwd")
        expected_reads = ((("GET", "/me"), 200), (("GET", f"/backends/weighted/{id}"), 404))
        write = (("POST", "/backends/weighted"), 201 if may_write else 503)
        for (method, path), status in (*expected_reads, write):
            answer = _ask(client, method, path)
            if answer.status_code != status:
                return f"{method} {path} is a {answer.status_code}: {answer.text[:300]}"
    return ""


def _ask(client: httpx.Client, method: str, path: str) -> httpx.Response:
    """Send a request, again while the functions of a busy machine start."""
    end = time.monotonic() + 90
    while True:
        answer = client.request(method, path, json={} if method == "POST" else None)
        if answer.status_code not in (502, 504) or time.monotonic() > end:
            return answer


if __name__ == "__main__":
    main(sys.argv[1:])
