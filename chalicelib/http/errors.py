"""Every error of the API, one class per row of the table in docs/conventions.md.

The code that raises an error writes its message. The exception is middleware.py, which writes the messages for errors
of the storage, such as most 409s, and makes the bodies of all errors. This file imports nothing, so that API Gateway's
authorizer can use it.
"""

from collections.abc import Mapping

_FAILED = "The service failed to answer. Quote the operation id when you report the failure."
# Headers of every response, also of those that API Gateway sends without the app.
ALWAYS = {"Strict-Transport-Security": "max-age=31536000", "X-Content-Type-Options": "nosniff"}
_MAX_NAMED = 100  # the most fields that one error names: with more, the response could be too large for API Gateway


class ApiError(Exception):
    """An error that the API answers with.

    `message` is a sentence that a person can act on. `details` maps dotted field paths to what would be accepted there.
    Neither contains a secret.
    """

    status = 500
    code = "internal_error"

    def __init__(self, message: str, details: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})

    @property
    def headers(self) -> dict[str, str]:
        return {}


class InvalidRequest(ApiError):
    """A value in the body, path or query breaks a rule. `details` names every field with such a value."""

    status, code = 400, "invalid_request"

    @staticmethod
    def of(wrong: Mapping[str, str]) -> "InvalidRequest":
        """Return the error for wrong fields. `wrong` maps the dotted path of each to the rule that its value breaks."""
        details = dict(list(wrong.items())[:_MAX_NAMED])
        first, rule = next(iter(details.items()))
        rest = f" {len(wrong) - 1} more: see 'details'." if len(wrong) > 1 else ""
        return InvalidRequest(f"'{first}' {rule}.{rest}", details)


class MalformedJson(ApiError):
    """The body is not JSON, is not an object, contains NaN or Infinity, or repeats a key."""

    status, code = 400, "malformed_json"


class UnknownReference(ApiError):
    """An id in the body names a resource that this account does not have."""

    status, code = 400, "unknown_reference"


class UnsupportedVersion(ApiError):
    """The version header is missing or not supported. The message lists the supported versions."""

    status, code = 400, "unsupported_version"


class Unauthenticated(ApiError):
    """The bearer token is missing, malformed, unknown, deleted or expired, or its owner is inactive or deleted."""

    status, code = 401, "unauthenticated"

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(ApiError):
    """The caller is authenticated, but not allowed to do this."""

    status, code = 403, "forbidden"


class NotFound(ApiError):
    """This account has no such resource. An id of another account gets the same answer."""

    status, code = 404, "not_found"


class NoSuchRoute(ApiError):
    """The path does not exist."""

    status, code = 404, "no_such_route"


class MethodNotAllowed(ApiError):
    """The path exists, but does not have this method."""

    status, code = 405, "method_not_allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This path supports only {allowed}.")
        self.allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        return {"Allow": self.allowed}


class Conflict(ApiError):
    """A value is taken, a limit is reached, the resource is in use, or another request used the `Idempotency-Key`."""

    status, code = 409, "conflict"


class PreconditionFailed(ApiError):
    """The resource does not meet `If-Match` or `If-None-Match`."""

    status, code = 412, "precondition_failed"


class PayloadTooLarge(ApiError):
    """The body is larger than the limit."""

    status, code = 413, "payload_too_large"


class UnsupportedMediaType(ApiError):
    """The body is not declared as `application/json`."""

    status, code = 415, "unsupported_media_type"


class RateLimited(ApiError):
    """There are too many requests. `Retry-After` is the number of seconds to wait."""

    status, code = 429, "rate_limited"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class InternalError(ApiError):
    """The service failed. The response contains only the operation id."""

    def __init__(self, cause: str = "") -> None:
        failed = f"The service is not set up: {cause}. docs/guide.md describes how." if cause else _FAILED
        super().__init__(failed)


class ServiceUnavailable(ApiError):
    """The store or the key service is overloaded or unavailable. A change may have been made, but never in part."""

    status, code = 503, "unavailable"
    retry_after = 1  # the seconds in the header Retry-After

    def __init__(
        self,
        message: str = "The service is busy or temporarily unavailable. The request may have succeeded: repeat it with "
        "the same Idempotency-Key, so that it takes effect only once.",
    ) -> None:
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": f"{self.retry_after}"}


class ReadOnly(ServiceUnavailable):
    """The operator has closed the service for changes, for example while a table is restored."""

    retry_after = 60

    def __init__(self) -> None:
        super().__init__("The service accepts no changes for now, only reads. Nothing was changed: try again later.")


class OtherSettings(ServiceUnavailable):
    """TUNNEL_DOMAIN or TCP_PORTS differ from the table's settings. The operator must correct the settings."""

    retry_after = 60
