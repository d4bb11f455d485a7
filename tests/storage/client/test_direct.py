"""Calls without botocore: they are signed, sent and answered as botocore's, and fall back to it."""

import base64
import cProfile
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError

from chalicelib.storage.client import aws
from chalicelib.storage.client.direct import DirectCaller
from tests.storage.client.services import BROKEN_OFF, CHUNKED, NO_HTTP, Service, client

KEYS = {"t": {"Keys": [{"scope": {"S": "é"}, "id": {"B": b"\x00\xff"}}], "ConsistentRead": True}}
FOUND = {"Responses": {"t": [{"scope": {"S": "é"}, "id": {"B": b"\x00\xff"}, "n": {"N": "1"}}]}, "UnprocessedKeys": {}}
REFUSED = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 29\r\n\r\n{"__type":"x#AccessDeniedExc"}'
FALSE_CONDITION = (
    b'HTTP/1.1 400 Bad Request\r\nContent-Length: 46\r\n\r\n{"__type":"x#ConditionalCheckFailedException"}'
)
CREDENTIALS = ReadOnlyCredentials("one", "secret", None)


def answer(body: dict[str, Any], *head: bytes) -> bytes:
    text = json.dumps(body, default=lambda value: base64.b64encode(value).decode()).encode()
    lines = [b"HTTP/1.1 200 OK", *head, b"content-length: " + str(len(text)).encode(), b"", text]
    return b"\r\n".join(lines)


@pytest.fixture
def services() -> Iterator[list[Service]]:
    started: list[Service] = []
    yield started
    for service in started:
        service.close()


def caller_of(boto_client: Any, port: int) -> DirectCaller:
    return DirectCaller(boto_client, f"127.0.0.1:{port}", lambda: CREDENTIALS, aws.parse)


@pytest.mark.parametrize("head", [(), (b"Connection: keep-alive", b"X-Other: a:b"), (b"Connection: close",)])
def test_a_read_has_the_answer_that_botocore_has(services: list[Service], head: tuple[bytes, ...]) -> None:
    services.append(service := Service([answer(FOUND, *head)]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    for event in ("before-parse.dynamodb.BatchGetItem",):
        boto_client.meta.events.register_first(event, aws.parse_answer)
    response = caller_of(boto_client, service.port).call("batch_get_item", {"RequestItems": KEYS})
    boto_response = boto_client.batch_get_item(RequestItems=KEYS)
    assert response == FOUND == {name: boto_response[name] for name in FOUND}
    assert len({body(request) for request in service.requests}) == 1
    assert {name(request) for request in service.requests} == {"DynamoDB_20120810.BatchGetItem"}
    boto_client.close()


@pytest.mark.parametrize("token", [None, "the+token/=="])
def test_a_read_has_the_signature_of_botocore(services: list[Service], token: str | None) -> None:
    services.append(service := Service([answer(FOUND)]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    credentials = ReadOnlyCredentials("one", "secret", token)
    caller = DirectCaller(boto_client, f"127.0.0.1:{service.port}", lambda: credentials, aws.parse)
    caller.call("batch_get_item", {"RequestItems": KEYS})
    request_body = body(service.requests[0])
    fields = dict(re.findall(r"(\S+): (.*)\r\n", service.requests[0].removesuffix(request_body).decode()))
    authorization, date = fields.pop("authorization"), fields["x-amz-date"]
    del fields["Content-Length"]
    request = AWSRequest("POST", f"http://127.0.0.1:{service.port}/", fields, request_body)
    request.context["timestamp"] = date
    signer = SigV4Auth(credentials, "dynamodb", boto_client.meta.region_name)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert authorization.rpartition("Signature=")[2] == expected
    assert ("x-amz-security-token" in fields) == (token is not None)
    assert f"Credential=one/{date[:8]}/{boto_client.meta.region_name}/dynamodb/aws4_request" in authorization
    boto_client.close()


def test_a_decrypted_text_is_bytes(services: list[Service]) -> None:
    services.append(service := Service([answer({"KeyId": "k", "Plaintext": b"\x00secret"})]))
    boto_client = client(f"http://127.0.0.1:{service.port}", service="kms")
    response = caller_of(boto_client, service.port).call(
        "decrypt", {"CiphertextBlob": b"\x01", "EncryptionContext": {"a": "b"}}
    )
    assert response == {"KeyId": "k", "Plaintext": b"\x00secret"}
    assert json.loads(body(service.requests[0])) == {"CiphertextBlob": "AQ==", "EncryptionContext": {"a": "b"}}
    boto_client.close()


WRITES: dict[str, dict[str, Any]] = {
    "put_item": {"TableName": "t", "Item": {"scope": {"S": "a"}, "id": {"B": b"\x00"}}},
    "update_item": {
        "TableName": "t",
        "Key": {"scope": {"S": "a"}},
        "UpdateExpression": "ADD #n :n",
        "ExpressionAttributeNames": {"#n": "n"},
        "ExpressionAttributeValues": {":n": {"N": "1"}},
        "ReturnValues": "ALL_NEW",
    },
    "delete_item": {"TableName": "t", "Key": {"scope": {"S": "a"}}},
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_has_the_body_that_botocore_sends(services: list[Service], operation: str) -> None:
    services.append(service := Service([answer({})]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    assert caller_of(boto_client, service.port).call(operation, WRITES[operation]) == {}
    getattr(boto_client, operation)(**WRITES[operation])
    first, second = (json.loads(body(request)) for request in service.requests)
    assert first == second
    assert len({name(request) for request in service.requests}) == 1
    boto_client.close()


@pytest.mark.parametrize("operation", WRITES)
def test_a_false_condition_is_raised_and_no_write_is_repeated(services: list[Service], operation: str) -> None:
    services.append(service := Service([FALSE_CONDITION, answer({})]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    caller = caller_of(boto_client, service.port)
    with pytest.raises(ClientError) as error:
        caller.call(operation, WRITES[operation])
    assert error.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert error.value.operation_name == boto_client.meta.method_to_api_mapping[operation]
    assert caller.call(operation, WRITES[operation]) == {}
    boto_client.close()


def test_a_missing_item_is_an_answer(services: list[Service]) -> None:
    services.append(service := Service([answer({})]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    assert caller_of(boto_client, service.port).call("get_item", {"TableName": "t", "Key": {"scope": {"S": "a"}}}) == {}
    boto_client.close()


@pytest.mark.parametrize(
    "bad",
    [
        REFUSED,
        CHUNKED,
        BROKEN_OFF,
        NO_HTTP,
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\r\n",
        answer({}),
        b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"a"',
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xff",
        answer({"Item": {"a": {"B": "no base64"}}}),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
)
def test_anything_else_than_a_whole_answer_is_left_to_botocore(services: list[Service], bad: bytes) -> None:
    services.append(service := Service([bad, answer(FOUND)]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    caller = caller_of(boto_client, service.port)
    assert caller.call("batch_get_item", {"RequestItems": KEYS}) is None
    assert caller.call("batch_get_item", {"RequestItems": KEYS}) == FOUND
    boto_client.close()


class Echo(Service):
    """Answers with the key of the item that a request wants."""

    def choose(self, request: bytes) -> bytes:
        return answer({"Item": json.loads(body(request))["Key"]})


def test_calls_that_are_sent_at_the_same_time_have_their_own_answers(services: list[Service]) -> None:
    keys = [{"TableName": "t", "Key": {"id": {"S": id}}} for id in ("a", "b", "c")]
    services.append(service := Echo([], at_once=3))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    assert caller_of(boto_client, service.port).call_each("get_item", keys) == [{"Item": key["Key"]} for key in keys]
    assert service.connections == 3
    boto_client.close()


@pytest.mark.parametrize("bad", [REFUSED, BROKEN_OFF])
def test_calls_of_which_one_fails_are_all_left_to_boto_clientcore(services: list[Service], bad: bytes) -> None:
    services.append(service := Service([answer(FOUND), bad, answer(FOUND)], at_once=3))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    caller, calls = caller_of(boto_client, service.port), [{"RequestItems": KEYS}] * 3
    assert caller.call_each("batch_get_item", calls) is None
    assert caller.call_each("batch_get_item", calls) == [FOUND] * 3
    boto_client.close()


def test_without_credentials_or_a_service_botocore_decides(services: list[Service]) -> None:
    services.append(service := Service([answer(FOUND)]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    assert (
        DirectCaller(boto_client, "h", lambda: None, aws.parse).call("batch_get_item", {"RequestItems": KEYS}) is None
    )
    service.close()
    assert caller_of(boto_client, service.port).call("batch_get_item", {"RequestItems": KEYS}) is None
    assert len(service.requests) == 0


def body(request: bytes) -> bytes:
    """Return the body of a request, of which a Service stores the head without the empty line."""
    return request[request.rindex(b"\r\n") + 2 :]


def name(request: bytes) -> str:
    match = re.search(rb"(?i)x-amz-target: (\S+)", request)
    return match[1].decode() if match else ""


def test_a_read_takes_a_fifteenth_of_the_work(services: list[Service]) -> None:
    services.append(service := Service([answer(FOUND)]))
    boto_client = client(f"http://127.0.0.1:{service.port}")
    caller = caller_of(boto_client, service.port)

    def count(read: Callable[[], object]) -> int:
        """Return the function calls of the second read."""
        read()
        profile = cProfile.Profile()
        profile.runcall(read)
        return sum(entry.callcount for entry in profile.getstats())

    directly = count(lambda: caller.call("batch_get_item", {"RequestItems": KEYS}))
    assert directly <= count(lambda: boto_client.batch_get_item(RequestItems=KEYS)) / 15
    boto_client.close()
