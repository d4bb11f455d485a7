"""Requests to the embedded cloud itself."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import httpx

from tests.conftest import Served

SCAN = {"X-Amz-Target": "DynamoDB_20120810.Scan", "Content-Type": "application/x-amz-json-1.0"}
REFUSED = {
    "__type": "UnrecognizedClientException",
    "message": (
        "The access key id is wrong: send the one in cloud.env, in the data folder of 'make run' or 'make cloud'."
    ),
}


def sign_headers(key_id: str) -> dict[str, str]:
    credential = f"{key_id}/20260101/us-east-1/dynamodb/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"}


def send_request(api: Served, headers: Mapping[str, str], method: str = "POST", path: str = "/") -> httpx.Response:
    url = api.cloud["AWS_ENDPOINT_URL"] + path
    return httpx.request(method, url, headers=dict(headers), json={"TableName": "tunnel-edge"}, trust_env=False)


def parse_answer(answer: httpx.Response) -> tuple[int, Any]:
    """Return the status, and what is told in JSON or, where the request named no target, in XML."""
    assert [name for name in answer.headers if name.startswith("access-control")] == []
    if answer.headers["content-type"] == "text/xml":
        code, message = ElementTree.fromstring(answer.text)[0]
        return answer.status_code, {"__type": code.text, "message": message.text}
    return answer.status_code, answer.json()
