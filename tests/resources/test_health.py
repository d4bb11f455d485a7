"""The health check: what it asks, how often, and what strangers learn of it."""

import json
from collections.abc import Iterator

import pytest
from botocore.awsrequest import AWSResponse

from chalicelib.resources.health import CHECK
from chalicelib.storage.client import aws
from tests.queries import calls
from tests.refusals import assert_refused
from tests.transports import Client

CALLS = ["GetItem", "Encrypt"]


@pytest.fixture(autouse=True)
def checked_anew() -> Iterator[None]:
    CHECK.forget()
    yield
    CHECK.forget()


def test_strangers_cause_a_check_every_five_seconds_at_most(admin: Client) -> None:
    with calls() as operations:
        answers = [admin.send("GET", "/health", Authorization="", **{"Service-Version": ""}) for _ in range(3)]
    assert [(answer.status, answer.json) for answer in answers] == [(200, {"status": "ok"})] * 3
    assert (operations, answers[0].headers["cache-control"]) == (CALLS, "no-store")


@pytest.mark.parametrize(("setting", "expected_calls"), [("KEY_ID", CALLS), ("TABLE_NAME", CALLS[:1])])
def test_a_missing_key_or_table_is_a_503_that_names_no_resource(
    admin: Client, monkeypatch: pytest.MonkeyPatch, setting: str, expected_calls: list[str]
) -> None:
    monkeypatch.setenv(setting, "alias/nothing" if setting == "KEY_ID" else "nothing")
    with calls() as operations:
        answers = [admin.get("/health") for _ in range(2)]
    for answer in answers:
        assert_refused(answer, 503, "unavailable", "The service is not healthy.")
        assert answer.headers["retry-after"] == "5"
    assert operations[-len(expected_calls) :] == expected_calls
    assert operations.count("Encrypt") == expected_calls.count("Encrypt")


def test_the_log_names_the_error_of_the_table_or_key(
    admin: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KEY_ID", "alias/nothing")
    admin.get("/health")
    line = json.loads(caplog.records[-1].getMessage())
    assert (line["error"], line["code"]) == ("Misconfigured", "NotFoundException")
    assert line["store"]["key_id"] == "alias/nothing"


def test_a_key_that_cannot_encrypt_is_a_503(admin: Client) -> None:
    def refuse(**_: object) -> AWSResponse:
        answer = AWSResponse("", 400, {"Content-Type": "application/x-amz-json-1.1"}, None)
        answer._content = b'{"__type": "InvalidKeyUsageException"}'
        return answer

    events = aws.client("kms").meta.events
    events.register_first("before-send.kms.Encrypt", refuse)
    try:
        assert_refused(admin.get("/health"), 503, "unavailable", "The service is not healthy.")
    finally:
        events.unregister("before-send.kms.Encrypt", refuse)
