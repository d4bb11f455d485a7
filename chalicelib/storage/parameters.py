"""Parameters of transactions sent as the JSON that they are: botocore's serializer looks up the shape of each value."""

import json
from base64 import b64encode
from typing import Any

from botocore.model import OperationModel

OPERATION = "TransactWriteItems"
_BODY = "body"  # its name in a call's context


def take(params: dict[str, Any], model: OperationModel, context: dict[str, Any], **_: object) -> None:
    """Keep the body of a transaction, when botocore has added its token, and leave botocore's serializer nothing."""
    if model.name == OPERATION:
        context[_BODY] = json.dumps(params, default=_base64).encode()
        params.clear()


def put(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Give the request the body that was kept."""
    params["body"] = context.pop(_BODY)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()
