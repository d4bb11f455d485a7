"""Parsing of DynamoDB's answers as plain JSON. botocore's parser tests each value for ten types."""

import json
from base64 import b64decode
from typing import Any

# Their answers contain texts, numbers and attributes. botocore parses the others, which contain times.
OPERATIONS = (
    "BatchGetItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactWriteItems",
    "UpdateItem",
)


def blank_unreadable(response_dict: dict[str, Any], **_: object) -> None:
    """Empty a body that is not a JSON object. botocore's parser would fail on it."""
    body = response_dict["body"]
    try:
        body.decode()
    except UnicodeDecodeError:
        body = b""
    response_dict["body"] = body if body.lstrip().startswith(b"{") or response_dict["status_code"] >= 300 else b""


def parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Add the values of a body to botocore's answer, and leave nothing for botocore's parser.

    Raises ValueError for invalid base64. That is not retried, because the answer is complete.
    """
    body = response_dict["body"]
    if response_dict["status_code"] >= 300:
        return
    response_dict["body"] = b""
    try:
        answer = json.loads(body.decode(), object_hook=_with_bytes if b'"B"' in body else None)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return
    if isinstance(answer, dict):
        customized_response_dict.update({name: value for name, value in answer.items() if value is not None})


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Return an attribute of bytes with its base64 decoded, and any other object unchanged."""
    text = value.get("B")
    return {"B": b64decode(text, validate=True)} if isinstance(text, str) else value
