"""Stacks in a cloud: created when there are none, else changed; and the files that they are made of, uploaded."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import Any

import boto3
from botocore.exceptions import ClientError, WaiterError

from chalicelib.storage import aws
from infra import cloud
from infra.cloud import ROOT, Trouble

DATA = ROOT / "infra" / "data.yaml"
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]  # roles; the translation of the SAM template
_PATIENCE = {"Delay": 2, "MaxAttempts": 600}


def deploy(
    template: str,
    stack: str,
    parameters: Mapping[str, str],
    kept: Collection[str] = (),
    *,
    bucket: str = "",
    role: str | None = None,
) -> dict[str, str]:
    """Create or change a stack; its outputs. Parameters that are `kept` and not given have the value of before.

    Without a bucket the template has at most 51,200 bytes. `role` is what CloudFormation works with. Raises Trouble
    when it fails, aws.AwsError.
    """
    with _asking():
        client = _client("cloudformation")
        before = _description(client, stack)
        body = {"TemplateURL": upload(template.encode(), bucket)[1]} if bucket else {"TemplateBody": template}
        given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        asked = {"StackName": stack, **body, "Capabilities": _CAPABILITIES, **({"RoleARN": role} if role else {})}
        if before is None:
            client.create_stack(**asked, Parameters=given, OnFailure="DELETE")
            _wait(client, "stack_create_complete", stack)
        elif _update(client, {**asked, "Parameters": [*given, *_kept(before, {*kept} - parameters.keys())]}):
            _wait(client, "stack_update_complete", stack)
        return outputs(stack)


def outputs(stack: str) -> dict[str, str]:
    """What a stack says of itself. Raises Trouble when there is none that is whole, aws.AwsError."""
    with _asking():
        description = _description(_client("cloudformation"), stack)
    if description is None:
        raise Trouble(f"There is no stack {stack}.")
    if "ROLLBACK" in description["StackStatus"] or not description["StackStatus"].endswith("_COMPLETE"):
        raise Trouble(f"The stack {stack} is in the state {description['StackStatus']}.")
    return {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", ())}


def upload(content: bytes, bucket: str) -> tuple[str, str]:
    """Put bytes into a bucket under their digest: the same bytes are one file; its key and its URL."""
    key = hashlib.sha256(content).hexdigest()
    with _asking():
        client = _client("s3")
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return key, f"{client.meta.endpoint_url}/{bucket}/{key}"


def make_bucket(bucket: str) -> None:
    """Create a bucket in an emulated cloud, unless there is one."""
    with _asking(), suppress(_client("s3").exceptions.BucketAlreadyOwnedByYou):
        _client("s3").create_bucket(Bucket=bucket)


def _client(service: str) -> Any:
    """A client that waits as long as boto3 does, not as short as the API has to."""
    return boto3.client(service, endpoint_url=cloud.named())


@contextmanager
def _asking() -> Iterator[None]:
    try:
        with aws.reaching():
            yield
    except ClientError as error:
        raise Trouble(f"The cloud refused: {error}") from None


def _description(client: Any, stack: str) -> Mapping[str, Any] | None:
    try:
        described: Mapping[str, Any] = client.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return described


def _kept(before: Mapping[str, Any], names: Set[str]) -> list[dict[str, Any]]:
    """Those of the names that the stack has as parameters, as they are."""
    had = {parameter["ParameterKey"] for parameter in before.get("Parameters", ())}
    return [{"ParameterKey": name, "UsePreviousValue": True} for name in sorted(had & names)]


def _update(client: Any, asked: Mapping[str, Any]) -> bool:
    """Whether there is anything to change."""
    try:
        client.update_stack(**asked)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return False
        raise
    return True


def _wait(client: Any, event: str, stack: str) -> None:
    try:
        client.get_waiter(event).wait(StackName=stack, WaiterConfig=_PATIENCE)
    except WaiterError:
        events = client.describe_stack_events(StackName=stack)["StackEvents"]
        failed = [event for event in reversed(events) if event["ResourceStatus"].endswith("_FAILED")]
        reasons = [f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}" for event in failed[:5]]
        raise Trouble("\n  ".join([f"The stack {stack} failed.", *reasons])) from None
