"""Every error of the API, one class per row of the table in docs/conventions.md; the middleware makes their body.

Messages are worded where an error is raised; those for errors of the storage, most 409s among them, in middleware.py.

Imports nothing, so that the gateway's authorizer can use it.
"""

from collections.abc import Mapping

_FAILED = "The service failed to answer. Quote the operation id when you report it."
_MAX_NAMED = 100  # fields that one error names, so that it stays far below the gateway's limit for a response


class ApiError(Exception):
    """An error that the API answers with.

    `message` is a sentence a person can act on; `details` maps dotted field paths to what would be right there.
    Neither ever holds a secret.
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
    """A body, path or query value breaks a rule; every bad field is named at once."""

    status, code = 400, "invalid_request"

    @staticmethod
    def of(wrong: Mapping[str, str]) -> "InvalidRequest":
        """Return the error that names what would be right at each dotted path that is wrong, at least one."""
        named = dict(list(wrong.items())[:_MAX_NAMED])
        first, rule = next(iter(named.items()))
        rest = f" {len(wrong) - 1} more: see the details." if len(wrong) > 1 else ""
        return InvalidRequest(f"'{first}' {rule}.{rest}", named)


class MalformedJson(ApiError):
    """The body is not JSON, is not an object, holds NaN or Infinity, or names a key twice."""

    status, code = 400, "malformed_json"


class UnknownReference(ApiError):
    """An id in the body names nothing this account has."""

    status, code = 400, "unknown_reference"


class UnsupportedVersion(ApiError):
    """The version header is absent or not supported; the message lists the supported ones."""

    status, code = 400, "unsupported_version"


class Unauthenticated(ApiError):
    """The bearer token is missing, malformed, unknown, deleted or expired, or its owner may not act any more."""

    status, code = 401, "unauthenticated"

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(ApiError):
    """The caller is known, and may not do this."""

    status, code = 403, "forbidden"


class NotFound(ApiError):
    """No such resource in this account: another account's id looks exactly the same."""

    status, code = 404, "not_found"


class NoSuchRoute(ApiError):
    """No such path."""

    status, code = 404, "no_such_route"


class MethodNotAllowed(ApiError):
    """The path exists, the method does not."""

    status, code = 405, "method_not_allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This path answers to {allowed}.")
        self.allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        return {"Allow": self.allowed}


class Conflict(ApiError):
    """A value is taken, a limit is reached, the resource is in use, or the `Idempotency-Key` is another request's."""

    status, code = 409, "conflict"


class PreconditionFailed(ApiError):
    """The resource is in another state than `If-Match` names, or in one that `If-None-Match` names."""

    status, code = 412, "precondition_failed"


class PayloadTooLarge(ApiError):
    """The body is above the limit."""

    status, code = 413, "payload_too_large"


class UnsupportedMediaType(ApiError):
    """The body is not declared as `application/json`."""

    status, code = 415, "unsupported_media_type"


class RateLimited(ApiError):
    """Too many requests. `Retry-After` is the number of seconds to wait."""

    status, code = 429, "rate_limited"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class InternalError(ApiError):
    """An error of the service itself. The response says nothing but the operation id."""

    def __init__(self, cause: str = "") -> None:
        failed = f"The service is not set up: {cause}. docs/guide.md describes how." if cause else _FAILED
        super().__init__(failed)


class Unavailable(ApiError):
    """The store or the key service is throttling or down. Nothing is half done, but a change may have happened."""

    status, code = 503, "unavailable"
    retry_after = 1  # seconds

    def __init__(
        self,
        message: str = "The service is busy or briefly out of reach. What was asked may have happened: repeat it with "
        "the same Idempotency-Key, and it happens once.",
    ) -> None:
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": f"{self.retry_after}"}


class OtherSettings(Unavailable):
    """TUNNEL_DOMAIN or TCP_PORTS differ from those of the table: the operator must correct them."""

    retry_after = 60
