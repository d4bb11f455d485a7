"""Errors for responses that reject a request, and the exit code of each."""

import json
from collections.abc import Mapping
from typing import Any

from tunnel_edge.errors import CONFLICT, FAILED, NOT_FOUND, NOT_SIGNED_IN, UNREACHABLE, CommandError

_CODES = {
    401: NOT_SIGNED_IN,
    404: NOT_FOUND,
    409: CONFLICT,
    412: CONFLICT,
    429: UNREACHABLE,
    500: UNREACHABLE,
    503: UNREACHABLE,
}


class ApiError(CommandError):
    """The service rejected a request. `body` is the JSON object of the response, or empty if there is none."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(_sentences(status, body), _CODES.get(status, FAILED), body)
        self.status = status


class UnreachableError(CommandError):
    """The service did not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, UNREACHABLE)


def from_answer(status: int, content: bytes) -> ApiError:
    """Return the error for a response that rejects a request. The body does not have to be JSON."""
    try:
        body = json.loads(content)
    except ValueError:
        body = {}
    return ApiError(status, body if isinstance(body, dict) else {})


def _sentences(status: int, body: Mapping[str, Any]) -> str:
    """Return the lines of an error for a person: the message, each field of `details`, and the operation's id."""
    lines = [str(body.get("msg") or f"The service answered with the status {status}.")]
    details = body.get("details")
    fields = dict(details) if isinstance(details, dict) else {}
    operation = fields.pop("operation_id", "")
    lines += [f"  {name}: {value}" for name, value in fields.items()]
    return "\n".join([*lines, *([f"  operation: {operation}"] if operation else [])])
