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
    """AWS, or the way there, failed: `code` names how, and never holds what was sent."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unavailable(AwsError):
    """The store or the key service is throttling, down or out of reach."""


class Misconfigured(AwsError):
    """No credentials, no region, no such profile, table or key, no right to use it, or a request of a wrong form."""


def translated(error: BotoCoreError | ClientError) -> Exception:
    """Return Unavailable or Misconfigured for such an error of botocore; another ClientError is returned as it is."""
    if not isinstance(error, ClientError):  # whose sentence may hold what was sent
        return (Unavailable if isinstance(error, _UNREACHABLE) else Misconfigured)(type(error).__name__)
    code = error.response["Error"]["Code"]
    if code in _MISCONFIGURED:
        return Misconfigured(code)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Unavailable(code) if status >= 500 or code in _BUSY else error
