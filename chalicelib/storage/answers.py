"""Answers of DynamoDB read as the JSON that they are: botocore's parser asks each value for ten possible kinds."""

import json
from base64 import b64decode
from typing import Any

# Those whose answers hold texts, numbers and attributes. Others, which hold times, are left to botocore.
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
    """Empty a body that is no JSON object in UTF-8, at which botocore's parser would fail."""
    body = response_dict["body"]
    try:
        body.decode()
    except UnicodeDecodeError:
        body = b""
    response_dict["body"] = body if body.lstrip().startswith(b"{") or response_dict["status_code"] >= 300 else b""


def parse(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Add to an answer what its body holds, in botocore's form, and leave nothing to botocore's parser.

    Raises ValueError where bytes in it cannot be read: it is whole, so that it is no better when it comes again.
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
    """Return an attribute of bytes, which JSON holds in base64, with its bytes, and any other object as it is."""
    text = value.get("B")
    return {"B": b64decode(text, validate=True)} if isinstance(text, str) else value
