"""AWS in this process: moto, whose records of DynamoDB are in MemoryTables. moto's own took half of the CPU time."""

import json
import threading
from base64 import b64encode
from typing import Any

from botocore import xform_name
from botocore.auth import SigV4Auth
from botocore.exceptions import ClientError
from moto.backends import get_backend
from moto.core.botocore_stubber import BotocoreStubber

from chalicelib.storage.client import aws
from tests.memory_expressions import Record
from tests.memory_table import MemoryTable

_ADDRESS = "https://dynamodb.us-east-1.amazonaws.com/"
_process, _add_auth = BotocoreStubber.process_request, SigV4Auth.add_auth
_tables: dict[str, MemoryTable] = {}
one_at_a_time = threading.RLock()  # held by each call


def install() -> None:
    """Let calls of DynamoDB in this process read and write MemoryTables, as soon as `mock_aws` begins."""
    for owner, name, function in (
        (BotocoreStubber, "process_request", _process_request),
        (SigV4Auth, "add_auth", _sign),
    ):
        setattr(owner, name, function)


def records(table: str = "tunnel-edge") -> dict[str, dict[str, Record]]:
    """Return the records of a table, by partition key and id. They change with what is written."""
    return _tables.setdefault(table, MemoryTable({})).records


def _process_request(stubber: Any, request: Any) -> Any:
    if request.url != _ADDRESS:
        return _process(stubber, request)
    operation = _text(request.headers["X-Amz-Target"]).rpartition(".")[2]
    parameters = aws.parse(request.body)
    assert parameters is not None
    if operation == "DeleteTable":
        _tables.pop(parameters["TableName"], None)
    if operation not in aws.PARSED or not _exists(name := _find_table(parameters)):
        return _process(stubber, request)
    with one_at_a_time:
        table = _tables.setdefault(name, MemoryTable({}))
        try:
            return 200, {}, json.dumps(getattr(table, xform_name(operation))(**parameters), default=_encode_bytes)
        except ClientError as error:
            response: Any = error.response
            reasons = {"CancellationReasons": response.get("CancellationReasons")}
            return 400, {}, json.dumps({"__type": f"dynamodb#{response['Error']['Code']}", "message": "", **reasons})


def _find_table(parameters: dict[str, Any]) -> str:
    """Return the name of the table that a call reads or writes."""
    if "RequestItems" in parameters:
        return str(next(iter(parameters["RequestItems"])))
    (write,) = parameters["TransactItems"][0].values() if "TransactItems" in parameters else [parameters]
    return str(write["TableName"])


def _exists(table: str) -> bool:
    return table in get_backend("dynamodb")["123456789012"]["us-east-1"].tables


def _sign(auth: Any, request: Any) -> None:
    """Sign a request, unless nothing reads the signature."""
    if request.url != _ADDRESS or auth.credentials is None:
        _add_auth(auth, request)


def _encode_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
