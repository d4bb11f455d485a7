"""Records of earlier versions in the table of a test, and what the API shows of them."""

import json
from typing import Any

from chalicelib.storage.client import aws
from tests.served import recorded
from tests.transports import Client, InProcess


def store_records(commit: str) -> tuple[Client, dict[str, Any]]:
    """Put the records of a version into the table, without secrets of its KMS key.

    Return a client and the version's answers by path.
    """
    token, version_records, answers = recorded.records(commit)
    for record in version_records:
        put({name: value for name, value in record.items() if name != "sealed"})
    return Client(InProcess()).with_token(token), answers


def read_answers(client: Client, answers: dict[str, Any]) -> dict[str, Any]:
    """Return what the API shows at the paths of answers, with only their fields."""
    text = json.dumps({path: client.get(path).json for path in answers}).replace("http://localhost", "{base_url}")
    return {path: {name: body.get(name) for name in answers[path]} for path, body in json.loads(text).items()}


def put(record: dict[str, Any]) -> None:
    aws.client("dynamodb").put_item(TableName="tunnel-edge", Item=record)


def records() -> list[dict[str, Any]]:
    return list(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"])


def revision(id: str) -> int:
    return next(int(record["revision"]["N"]) for record in records() if record["id"]["S"].endswith(id))
