"""Reasons why the store cannot be used, for the log and operators. Callers of a deployed API never see them."""

import os

from chalicelib.storage import vault
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.aws import AwsError, Unavailable

_CREATE = "'python -m chalicelib store create' creates it"
_SENTENCES = {
    "NoRegionError": "no region is set: set AWS_DEFAULT_REGION",
    "NoCredentialsError": "no credentials are set: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "PartialCredentialsError": "credentials are incomplete: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "ProfileNotFound": "the profile does not exist: check AWS_PROFILE",
    "ResourceNotFoundException": f"the table does not exist: {_CREATE}",
    "NotFoundException": f"the key does not exist: {_CREATE}",
    "DisabledException": "the key is disabled",
    "KMSInvalidStateException": "the key cannot be used in its present state",
    "AccessDeniedException": "the credentials lack a permission",
    "ExpiredTokenException": "the credentials have expired",
    "InvalidSignatureException": "the credentials are wrong",
    "UnrecognizedClientException": "AWS does not know these credentials",
}


def build_log_fields(error: AwsError) -> dict[str, str]:
    """Return log fields about an AWS error: cause, table, KMS key, region and endpoint."""
    return {
        "missing": _SENTENCES.get(error.code, _advise(error)),
        "table": dynamodb.table_name(),
        "key_id": vault.key_id(),
        "region": aws.region(),
        "endpoint": aws.endpoint(),
    }


def sentence(error: AwsError) -> str:
    """Return a sentence about an AWS error for operators. It names the cause and the configured store."""
    fields = build_log_fields(error)
    store = ", ".join(f"{name} {fields[name]}" for name in ("table", "key_id", "region", "endpoint"))
    return f"The store cannot be used ({error.code}): {fields['missing']}. The configured store is: {store}."


def name_cause(error: AwsError) -> str:
    """Return the cause of an AWS error for local callers.

    Return "" in Lambda, because its callers are not operators.
    """
    return "" if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else _SENTENCES.get(error.code, "")


def _advise(error: AwsError) -> str:
    return "it does not answer or is busy" if isinstance(error, Unavailable) else "check its settings"
