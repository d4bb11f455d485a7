"""Answers of DynamoDB are read as botocore reads them, and what is no answer is read as none."""

import json
from base64 import b64encode
from typing import Any

import pytest
from botocore.model import OperationModel
from botocore.parsers import create_parser
from botocore.session import get_session

from chalicelib.storage.client import aws
from tests.refusals import assert_refused
from tests.storage.answering import answer_operation
from tests.transports import Client

BYTES = {"B": b64encode(b"\x00\xff").decode()}
RECORD = {
    "scope": {"S": "acct_1#/x"},
    "id": {"S": 'ä " \\ "B"'},
    "B": {"S": "B"},
    "schema": {"N": "2"},
    "body": {
        "M": {"none": {"NULL": True}, "yes": {"BOOL": False}, "B": BYTES, "list": {"L": [BYTES, {"M": {"B": BYTES}}]}}
    },
    "names": {"SS": ["B", "a"]},
    "empty": {"M": {}},
}
PLAIN = {"id": {"S": "one"}, "body": {"M": {"n": {"N": "-1"}}}}
KEY = {"scope": {"S": "a"}, "id": {"S": "b"}}


@pytest.fixture(scope="module")
def model() -> Any:
    return get_session().get_service_model("dynamodb")


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("GetItem", {}),
        ("GetItem", {"Item": RECORD}),
        ("GetItem", {"Item": PLAIN, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 0.5}}),
        ("Query", {"Items": [RECORD, PLAIN], "Count": 2, "ScannedCount": 3, "LastEvaluatedKey": KEY}),
        ("Query", {"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": None}),
        ("Scan", {"Items": [PLAIN], "Count": 1, "ScannedCount": 1}),
        ("UpdateItem", {"Attributes": RECORD}),
        ("PutItem", {}),
        ("DeleteItem", {}),
        ("TransactWriteItems", {}),
        (
            "BatchGetItem",
            {
                "Responses": {"t": [RECORD], "B": []},
                "UnprocessedKeys": {"t": {"Keys": [KEY], "ConsistentRead": True}},
            },
        ),
    ],
)  # fmt: skip
def test_an_answer_is_read_as_botocore_reads_it(model: Any, operation: str, body: dict[str, Any]) -> None:
    assert operation in aws.PARSED
    operation_model = model.operation_model(operation)
    text = json.dumps(body).encode()
    assert parse_body(operation_model, text) == create_parser("json").parse(
        parse_answer(text), operation_model.output_shape
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"<html>", b'{"Item"', b'{"Item": "\xff"}'])
def test_what_is_no_answer_is_read_as_none(model: Any, body: bytes) -> None:
    assert parse_body(model.operation_model("GetItem"), body).keys() == {"ResponseMetadata"}


@pytest.mark.parametrize("text", ["a", "AA=", "%%%%", "AA==A"])
def test_bytes_that_cannot_be_read_are_no_record_that_is_missing(admin: Client, text: str) -> None:
    backend = admin.create("/backends/weighted", {})
    body = {"Item": {"scope": {"S": "x"}, "id": {"S": backend["id"]}, "body": {"M": {"a": {"B": text}}}}}
    assert admin.get("/me").status == 200
    with answer_operation("GetItem", body, times=2, status=200):
        answer = admin.get(f"/backends/weighted/{backend['id']}")
    assert_refused(answer, 500, "internal_error", answer.json["msg"])
    assert admin.get(f"/backends/weighted/{backend['id']}").json == backend


def test_a_refusal_is_left_to_botocore(model: Any) -> None:
    response, added = parse_answer(b'{"__type": "x#ConditionalCheckFailedException"}', 400), dict[str, Any]()
    aws.parse_answer(response, added)
    assert (response["body"], added) == (b'{"__type": "x#ConditionalCheckFailedException"}', {})


def parse_body(operation: OperationModel, body: bytes) -> dict[str, Any]:
    response, added = parse_answer(body), dict[str, Any]()
    aws.parse_answer(response, added)
    parsed: dict[str, Any] = create_parser("json").parse(response, operation.output_shape)
    return parsed | added


def parse_answer(body: bytes, status: int = 200) -> dict[str, Any]:
    return {"headers": {"x-amzn-RequestId": "1"}, "status_code": status, "context": {}, "body": body}
