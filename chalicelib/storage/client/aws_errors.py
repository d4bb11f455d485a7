"""The errors of calls to AWS."""

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError

_BUSY = {
    "DependencyTimeoutException",
    "InternalServerError",
    "KMSInternalException",
    "KeyUnavailableException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_UNREACHABLE = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
_MISCONFIGURED = {
    "AccessDeniedException",
    "DisabledException",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "KMSInvalidStateException",
    "NotFoundException",
    "ResourceNotFoundException",
    "UnrecognizedClientException",
}


class AwsError(Exception):
    """A call to AWS failed. `code` names the error and contains no part of the request."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unavailable(AwsError):
    """The store or the key service is throttling, down or unreachable."""


class Misconfigured(AwsError):
    """The configuration for AWS is incomplete or wrong, for example the credentials, region, table or permissions.

    Also raised for a request that AWS rejects as invalid.
    """


def translate(error: BotoCoreError | ClientError) -> Exception:
    """Return the exception for botocore's error. It is Unavailable, Misconfigured, or the same ClientError."""
    # only the name of botocore's exception, because its message may contain parts of the request
    if not isinstance(error, ClientError):
        return (Unavailable if isinstance(error, _UNREACHABLE) else Misconfigured)(type(error).__name__)
    code = error.response["Error"]["Code"]
    if code in _MISCONFIGURED:
        return Misconfigured(code)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Unavailable(code) if status >= 500 or code in _BUSY else error
