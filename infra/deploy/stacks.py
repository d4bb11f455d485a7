"""CloudFormation stacks: create, update and read them, and upload their files."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError, WaiterError

from chalicelib.storage.client import aws
from infra import CommandError
from infra.local import cloud

# CloudFormation requires CAPABILITY_IAM for IAM roles, and CAPABILITY_AUTO_EXPAND for SAM templates
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
_COMPLETE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE")
_POLLING = {"Delay": 2, "MaxAttempts": 600}


def deploy(
    template: str,
    stack: str,
    parameters: Mapping[str, str],
    *,
    bucket: str = "",
    role: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Create or update a stack; return its outputs.

    Without a bucket the template can have at most 51,200 bytes. CloudFormation assumes the `role`, and gives the `tags`
    to all resources. If `tags` is None, they stay unchanged.
    Raises CommandError, aws.AwsError.
    """
    with _translate_errors():
        client = _client("cloudformation")
        before = _description(client, stack)
        body = {"TemplateURL": upload(template.encode(), bucket)[1]} if bucket else {"TemplateBody": template}
        pairs = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        identity = {"ClientRequestToken": uuid4().hex, **({"RoleARN": role} if role else {})}
        named = {} if tags is None else {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        request = {"StackName": stack, **body, **identity, "Capabilities": _CAPABILITIES, "Parameters": pairs, **named}
        if before is None:
            created = client.create_stack(**request, OnFailure="DELETE")
            _wait(client, "stack_create_complete", created["StackId"], identity)
        elif _update(client, request):
            _wait(client, "stack_update_complete", before["StackId"], identity)
        return outputs(stack)


def outputs(stack: str) -> dict[str, str]:
    """Return a stack's outputs. Raises CommandError if it is missing or incomplete, aws.AwsError."""
    with _translate_errors():
        description = _description(_client("cloudformation"), stack)
    if description is None:
        raise CommandError(f"There is no stack {stack} in this account and region: deploy it first.")
    if description["StackStatus"] not in _COMPLETE:
        raise CommandError(
            f"The stack {stack} is in the state {description['StackStatus']}: its events in CloudFormation show why."
        )
    return {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", ())}


def parameters(stack: str) -> dict[str, str]:
    """Return a stack's parameters, or {} without a stack. Raises aws.AwsError."""
    with _translate_errors():
        description = _description(_client("cloudformation"), stack) or {}
    return {entry["ParameterKey"]: entry["ParameterValue"] for entry in description.get("Parameters", ())}


def template(stack: str) -> str:
    """Return a stack's template, or "" without a stack. Raises aws.AwsError, CommandError."""
    with _translate_errors():
        client = _client("cloudformation")
        if _description(client, stack) is None:
            return ""
        body = client.get_template(StackName=stack, TemplateStage="Original")["TemplateBody"]
    return body if isinstance(body, str) else json.dumps(body)  # boto3 parses JSON, and leaves YAML as it is


def upload(content: bytes, bucket: str) -> tuple[str, str]:
    """Upload bytes to S3, with their digest as the key. Return the key and the URL."""
    key = hashlib.sha256(content).hexdigest()
    with _translate_errors():
        client = _client("s3")
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return key, f"{client.meta.endpoint_url}/{bucket}/{key}"


def make_bucket(bucket: str) -> None:
    """Create a bucket in an emulated cloud if it is missing."""
    with _translate_errors():
        client = _client("s3")
        region = client.meta.region_name
        location = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
        with suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=bucket, **location)


def _client(service: str) -> Any:
    """Return a boto3 client. Its timeouts are boto3's defaults, because the API's timeouts are too short."""
    import boto3  # imported here, because `make run` needs none of its clients

    if boto3.DEFAULT_SESSION is None:
        boto3.setup_default_session()
    return _make_client(boto3.DEFAULT_SESSION, service, cloud.endpoint_url())


@cache  # a deployment makes a dozen calls, and to make a client takes longer than to call
def _make_client(session: Any, service: str, endpoint: str | None) -> Any:
    return session.client(service, endpoint_url=endpoint)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        with aws.translate_errors():
            yield
    except ClientError as error:
        raise CommandError(f"AWS refused the request: {error}") from None


def _description(client: Any, stack: str) -> Mapping[str, Any] | None:
    try:
        described: Mapping[str, Any] = client.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return described


def _update(client: Any, request: Mapping[str, Any]) -> bool:
    """Update a stack. Return whether anything changed."""
    try:
        client.update_stack(**request)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return False
        raise
    return True


def _wait(client: Any, event: str, stack_id: str, identity: Mapping[str, str]) -> None:
    """Wait until CloudFormation has ended a change of a stack. Raises CommandError with the errors of this change."""
    try:
        client.get_waiter(event).wait(StackName=stack_id, WaiterConfig=_POLLING)
    except WaiterError as error:
        pages = client.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        token = identity["ClientRequestToken"]
        reasons = [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', event['ResourceStatus'])}"
            for event in reversed([event for page in pages for event in page["StackEvents"]])
            if event.get("ClientRequestToken", token) == token and event["ResourceStatus"].endswith("_FAILED")
        ]
        raise CommandError("\n  ".join([f"The stack {stack_id} failed.", *(reasons or [str(error)])])) from None
