"""The one body of every refusal, spelled out: what a test expects, beside the operation id that nobody can know."""

from collections.abc import Mapping
from typing import Any

from tests.transports import Answer

NO_TOKEN = "Send the header 'Authorization: Bearer <token of an API key>'."
NO_TOKEN_OF_OURS = (
    f"This token is incomplete, or not of this service. A token has 69 characters and begins with 'te_'. {NO_TOKEN}"
)
UNKNOWN_TOKEN = "The API key is unknown or was deleted."
NO_VERSION = "Send the header 'Service-Version' with a supported version: 2 or 0."
NO_ROUTE = "No such path. GET /docs and GET /openapi.json describe the paths of this API."
NO_JSON_TYPE = "Send the body as JSON, with the header 'Content-Type: application/json'."
INTERNAL = "The service failed to answer. Quote the operation id when you report the failure."
UNAVAILABLE = (
    "The service is busy or temporarily unavailable. The request may have succeeded: repeat it with the same "
    "Idempotency-Key, so that it takes effect only once."
)


def refusal(answer: Answer, code: str, msg: str, details: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the whole body that an answer with this code and message must have."""
    return {
        "error_code": code,
        "status_code": answer.status,
        "msg": msg,
        "details": {**(details or {}), "operation_id": answer.headers["operation-id"]},
    }


def assert_refused(answer: Answer, status: int, code: str, msg: str, details: Mapping[str, str] | None = None) -> None:
    assert (answer.status, answer.json) == (status, refusal(answer, code, msg, details))
    assert answer.headers["content-type"] == "application/json"


def assert_invalid(answer: Answer, details: Mapping[str, str]) -> None:
    """Assert a 400 that names exactly these fields, and the first one in its message."""
    first, rule = next(iter(details.items()))
    suffix = f" {len(details) - 1} more: see 'details'." if len(details) > 1 else ""
    assert_refused(answer, 400, "invalid_request", f"'{first}' {rule}.{suffix}", details)


def assert_not_found(answer: Answer, path: str) -> None:
    """Assert a 404 for a resource of the list at the path."""
    assert_refused(answer, 404, "not_found", f"This account has no resource with that id under {path}.")


def is_clear(answer: Answer) -> bool:
    """Return whether it is the contract's 503, whole."""
    return answer.headers.get("retry-after") == "1" and (answer.status, answer.json) == (
        503,
        {
            "error_code": "unavailable",
            "status_code": 503,
            "msg": UNAVAILABLE,
            "details": {"operation_id": answer.headers["operation-id"]},
        },
    )
