"""The loss of a region, rehearsed between two emulated regions: `python -m tests.cloud.lost_region`.

It deploys the package of `make package STAGE=dev`, replicates the key, and copies the table. After the API and the key
of the first region have ended, it deploys in the other region as infra/README.md says. There, a token of the first
region must be accepted, and an SSH authority of the first region must sign. The emulated cloud has no backups, so a
copy of all records replaces a restored backup.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import httpx

from infra.local import cloud
from tests import samples
from tests.conftest import ROOT, free_port

NAME, LOST, REGION = "tunnel-edge", "us-east-1", "us-west-2"
RESTORED = f"{NAME}-restored"
PACKAGE = str(ROOT / "build" / "dev")
_ACCOUNT = "from chalicelib.operator import accounts; print(accounts.create_account('acme', 'alice')[2])"


def main() -> None:
    """Rehearse, and exit with status 1 if the other region does not serve."""
    with TemporaryDirectory() as folder:
        embedded = cloud.Cloud(Path(folder) / "cloud", free_port(), AUTH="true", PERSIST_STATE="0")
        embedded.start()
        try:
            cloud.use_cloud(embedded.settings)
            sys.exit(_rehearse())
        finally:
            embedded.stop()


def _rehearse() -> str | None:
    """Lose a region. Return what fails in the other region, or None."""
    before = _deploy(LOST)
    token = _create_account(before["TableName"], before["KeyArn"])
    status, authority = _send(before, token, "/ssh_certificate_authorities", {})
    if status != 201:
        return f"The first region refused an authority with a {status}."
    key = _replicate_key(before["KeyArn"])
    print(f"{_copy_table():,} records copied", flush=True)
    boto3.client("cloudformation", LOST).delete_stack(StackName=f"{NAME}-api")
    boto3.client("kms", LOST).disable_key(KeyId=before["KeyArn"])

    start = time.monotonic()
    after = _deploy(REGION, f"TableName={RESTORED}", f"KeyArn={key}")
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key(), "principals": ["root"]}
    status, certificate = _send(after, token, "/ssh_user_certificates", body)
    print(f"{REGION} serves after {time.monotonic() - start:.0f} s", flush=True)
    return None if status == 201 else f"The other region refused to sign with a {status}: {certificate}"


def _deploy(region: str, *parameters: str) -> dict[str, str]:
    """Deploy in a region. Return the outputs."""
    location: Any = {} if region == LOST else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    boto3.client("s3", region).create_bucket(Bucket=f"packages-{region}", **location)
    command = [sys.executable, "-m", "infra.deploy", PACKAGE, "AlarmTopicArn=none", *parameters]
    environment = {**os.environ, "AWS_DEFAULT_REGION": region}
    command += ["--name", NAME, "--bucket", f"packages-{region}"]
    result = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return dict(line.split("=", 1) for line in result.stdout.splitlines())


def _create_account(table: str, key: str) -> str:
    """Return the token of a new account."""
    environment = {**os.environ, "TABLE_NAME": table, "KEY_ID": key}
    command = [sys.executable, "-c", _ACCOUNT]
    process = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return process.stdout.strip()


def _replicate_key(key: str) -> str:
    """Copy the key with its policy, and give the copy an alias. Return its ARN."""
    kms = boto3.client("kms", LOST)
    policy = kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    copied: str = kms.replicate_key(KeyId=key, ReplicaRegion=REGION, Policy=policy)["ReplicaKeyMetadata"]["Arn"]
    boto3.client("kms", REGION).create_alias(AliasName=f"alias/{NAME}-copy", TargetKeyId=copied)
    return copied


def _copy_table() -> int:
    """Copy the table to the other region. Return the number of records."""
    table, other = boto3.client("dynamodb", LOST), boto3.client("dynamodb", REGION)
    described: Any = table.describe_table(TableName=NAME)["Table"]
    names = ("IndexName", "KeySchema", "Projection")
    other.create_table(
        TableName=RESTORED,
        KeySchema=described["KeySchema"],
        AttributeDefinitions=described["AttributeDefinitions"],
        GlobalSecondaryIndexes=[{name: index[name] for name in names} for index in described["GlobalSecondaryIndexes"]],
        BillingMode="PAY_PER_REQUEST",
    )
    items = [item for page in table.get_paginator("scan").paginate(TableName=NAME) for item in page["Items"]]
    for item in items:
        other.put_item(TableName=RESTORED, Item=item)
    return len(items)


def _send(outputs: dict[str, str], token: str, path: str, body: object) -> tuple[int, Any]:
    """Send a POST, again while the functions of a busy machine start. Return the status and body."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}/restapis/{outputs['RestAPIId']}/dev/_user_request_{path}"
    headers = {"Authorization": f"Bearer {token}", "Service-Version": "2"}
    end = time.monotonic() + 90
    while True:
        answer = httpx.post(url, json=body, headers=headers, timeout=30, trust_env=False)
        if answer.status_code not in (502, 504) or time.monotonic() > end:
            return answer.status_code, answer.json()


if __name__ == "__main__":
    main()
