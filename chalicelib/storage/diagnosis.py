"""Why the store cannot be used, for the log and for operators. Callers of a deployed API learn nothing of it."""

import os

from chalicelib.storage import aws, dynamodb, vault
from chalicelib.storage.aws import AwsError, Unavailable

_CREATE = "'python -m chalicelib store create' makes it"
_SENTENCES = {
    "NoRegionError": "no region is set: AWS_DEFAULT_REGION",
    "NoCredentialsError": "there are no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "PartialCredentialsError": "half of the credentials is missing: AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY",
    "ProfileNotFound": "there is no such profile: AWS_PROFILE",
    "ResourceNotFoundException": f"there is no such table: {_CREATE}",
    "NotFoundException": f"there is no such key: {_CREATE}",
    "DisabledException": "the key is disabled",
    "KMSInvalidStateException": "the key cannot be used in its state",
    "AccessDeniedException": "the credentials do not permit it",
    "ExpiredTokenException": "the credentials have expired",
    "InvalidSignatureException": "the credentials are wrong",
    "UnrecognizedClientException": "the credentials are not known",
}


def of(error: AwsError) -> dict[str, str]:
    """Return as log fields what is missing, and the table, key, region and endpoint that were asked."""
    return {
        "missing": _SENTENCES.get(error.code, _otherwise(error)),
        "table": dynamodb.table_name(),
        "key_id": vault.key_id(),
        "region": aws.region(),
        "endpoint": aws.endpoint(),
    }


def sentence(error: AwsError) -> str:
    """Return the same as a sentence for operators."""
    said = of(error)
    store = ", ".join(f"{name} {said[name]}" for name in ("table", "key_id", "region", "endpoint"))
    return f"The store cannot be used ({error.code}): {said['missing']}. It is {store}."


def for_callers(error: AwsError) -> str:
    """Return what a server on a developer's machine lacks; "" in Lambda, whose callers are not its operators."""
    return "" if "AWS_LAMBDA_FUNCTION_NAME" in os.environ else _SENTENCES.get(error.code, "")


def _otherwise(error: AwsError) -> str:
    return "it does not answer, or is busy" if isinstance(error, Unavailable) else "check its settings"
