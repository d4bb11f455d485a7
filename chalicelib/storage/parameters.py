"""Serialization of transactions straight to JSON. botocore's serializer looks up the shape of each value."""

import json
from base64 import b64encode
from typing import Any

from botocore.model import OperationModel

OPERATION = "TransactWriteItems"
_BODY = "body"  # its name in a call's context


def take(params: dict[str, Any], model: OperationModel, context: dict[str, Any], **_: object) -> None:
    """Serialize a transaction, with botocore's token, and store it in the context."""
    if model.name == OPERATION:
        context[_BODY] = json.dumps(params, default=_base64).encode()
        params.clear()


def put(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Set the request's body, which `take` stored."""
    params["body"] = context.pop(_BODY)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
