"""The body of a transaction is the one that botocore makes, with the token by which it is done once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.serialize import create_serializer
from botocore.session import get_session

from chalicelib.storage.client import aws

KEY = {"scope": {"S": 'ä " \\'}, "id": {"S": "b"}}
ITEM = {
    **KEY,
    "body": {"M": {"none": {"NULL": True}, "bytes": {"B": b"\x00\xff"}, "list": {"L": [{"B": b""}, {"BOOL": False}]}}},
    "names": {"SS": ["a", "b"]},
    "revision": {"N": "-1"},
    "empty": {"M": {}},
}
WRITES = [
    {"Put": {"TableName": "t", "Item": ITEM}},
    {
        "Update": {
            "TableName": "t",
            "Key": KEY,
            "UpdateExpression": "SET #a = :a",
            "ConditionExpression": "#a <> :a",
            "ExpressionAttributeNames": {"#a": "a"},
            "ExpressionAttributeValues": {":a": {"B": b"\xfe"}},
        }
    },
    {"Delete": {"TableName": "t", "Key": KEY}},
    {"ConditionCheck": {"TableName": "t", "Key": KEY, "ConditionExpression": "attribute_exists(id)"}},
]


class Sent(Exception):
    """Ends a call in the place of its sending."""


@pytest.fixture
def requests() -> Iterator[list[AWSPreparedRequest]]:
    """Return the requests that would be sent from here on."""
    requests: list[AWSPreparedRequest] = []

    def take(request: AWSPreparedRequest, **_: object) -> None:
        requests.append(request)
        raise Sent

    events = aws.client("dynamodb").meta.events
    events.register_first("before-send.dynamodb.TransactWriteItems", take)
    yield requests
    events.unregister("before-send.dynamodb.TransactWriteItems", take)


def test_the_body_is_the_one_that_botocore_makes(requests: list[AWSPreparedRequest]) -> None:
    parameters: dict[str, Any] = {"TransactItems": WRITES, "ReturnConsumedCapacity": "TOTAL"}
    with pytest.raises(Sent):
        aws.call("dynamodb", "transact_write_items", **parameters)
    body = json.loads(requests[0].body)
    token = body["ClientRequestToken"]
    assert len(token) == 36
    assert "TransactItems" in parameters
    model = get_session().get_service_model("dynamodb").operation_model("TransactWriteItems")
    boto_request = create_serializer("json").serialize_to_request({**parameters, "ClientRequestToken": token}, model)
    assert body == json.loads(boto_request["body"])
    assert requests[0].headers["Content-Length"] == str(len(requests[0].body))
    assert requests[0].headers["X-Amz-Target"] == b"DynamoDB_20120810.TransactWriteItems"
