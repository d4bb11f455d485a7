"""Metrics in the log: each is provoked once, and each line obeys CloudWatch's embedded metric format."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from chalicelib.authorizer import authorize
from chalicelib.http import log
from chalicelib.model.limits.counters import OF_PROCESS
from chalicelib.operator import commands
from chalicelib.storage.client import aws, call_counts, dynamodb
from chalicelib.storage.client.dynamodb import Write
from tests import gateway
from tests.transports import Client

NAMESPACE = "tunnel-edge-test-api"
UNITS = {"Count", "Milliseconds"}  # those that this service uses


@pytest.fixture(autouse=True)
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("METRICS_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("METRICS_BY_ROUTE", "true")
    log.SAMPLE.restart()
    call_counts.take()
    yield
    OF_PROCESS.forget()


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "tunnel_edge"]


def extract_metrics(line: dict[str, Any]) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the metrics of a line by the values of their dimensions, as CloudWatch extracts them.

    Fails for a line that the specification of the embedded metric format does not permit.
    """
    meta = line["_aws"]
    assert meta.keys() == {"Timestamp", "CloudWatchMetrics"}
    assert isinstance(meta["Timestamp"], int)
    assert len(json.dumps(line)) < 256 * 1024
    metrics: dict[tuple[str, ...], dict[str, float]] = {}
    for directive in meta["CloudWatchMetrics"]:
        assert directive.keys() == {"Namespace", "Dimensions", "Metrics"}
        assert 1 <= len(directive["Namespace"]) <= 255
        assert 1 <= len(directive["Metrics"]) <= 100
        assert directive["Dimensions"]
        for names in directive["Dimensions"]:
            assert 1 <= len(names) <= 30
            values = tuple(line[name] for name in names)
            assert all(isinstance(value, str) and re.fullmatch("[!-~ ]{1,1024}", value) for value in values)
            for metric in directive["Metrics"]:
                assert metric.keys() == {"Name", "Unit"}
                assert metric["Unit"] in UNITS
                value = line[metric["Name"]]
                assert isinstance(value, int | float)
                assert not isinstance(value, bool)
                metrics.setdefault(values, {})[metric["Name"]] = value
    return metrics


def test_a_request_is_counted_for_the_service_and_its_route(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    admin.get("/users/usr_x")
    line = lines(caplog)[-1]
    metrics = extract_metrics(line)
    counts = {"Requests": 1, "Errors": 0, "Latency": line["duration_ms"]}
    assert metrics == {(NAMESPACE,): counts, (NAMESPACE, "GET /users/{id}"): counts}


def test_routes_are_no_dimension_if_the_operator_says_so(
    admin: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METRICS_BY_ROUTE", "false")
    admin.get("/me")
    assert [*extract_metrics(lines(caplog)[-1])] == [(NAMESPACE,)]


def test_no_stranger_can_cause_dimensions(nobody: Client, caplog: pytest.LogCaptureFixture) -> None:
    nobody.send("BREW", "/coffee/secret")
    nobody.get("/nothing/secret")
    operations = [line["operation"] for line in lines(caplog)[-2:]]
    assert operations == ["OTHER /{proxy+}", "GET /{proxy+}"]


def test_a_store_that_fails_is_an_error_and_a_throttle(
    admin: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_counts.note("dynamodb", "ThrottlingException")
    call_counts.note("dynamodb", "AccessDeniedException")
    monkeypatch.setenv("TABLE_NAME", "nothing")
    admin.get("/me")
    metrics = extract_metrics(lines(caplog)[-1])[(NAMESPACE,)]
    assert (metrics["Errors"], metrics["StoreThrottles"]) == (1, 1)


def test_a_request_over_its_limit_is_a_throttle(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    commands.main(["accounts", "limits", admin.account, "--requests-per-second", "1"])
    statuses = [admin.get("/backends/weighted").status for _ in range(3)]
    assert statuses[-1] == 429
    assert extract_metrics(lines(caplog)[-1])[(NAMESPACE,)]["Throttled"] == 1


def test_calls_of_kms_and_their_errors_are_counted(
    admin: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create("/ssh_certificate_authorities", {})
    assert extract_metrics(lines(caplog)[-1])[(NAMESPACE,)]["KmsCalls"] == 1
    monkeypatch.setenv("KEY_ID", "alias/nothing")
    assert admin.post("/ssh_certificate_authorities", {}).status == 500
    metrics = extract_metrics(lines(caplog)[-1])[(NAMESPACE,)]
    assert (metrics["KmsCalls"], metrics["KmsErrors"], metrics["Errors"]) == (1, 1, 1)


def test_conflicts_of_transactions_are_counted(caplog: pytest.LogCaptureFixture, admin: Client) -> None:
    events = aws.client("dynamodb").meta.events
    reasons = {"CancellationReasons": [{"Code": "TransactionConflict"}]}
    calls: list[object] = []

    def conflict(**_: object) -> Any:
        calls.append(None)
        if len(calls) == 1:
            body = json.dumps({"__type": "TransactionCanceledException", **reasons}).encode()
            response = AWSResponse("", 400, {"Content-Type": "application/x-amz-json-1.0"}, None)
            response._content = body
            return response
        return None

    events.register_first("before-send.dynamodb.TransactWriteItems", conflict)
    try:
        dynamodb.transact([Write.put({"scope": "a", "id": "b"})])
    finally:
        events.unregister("before-send.dynamodb.TransactWriteItems", conflict)
    admin.get("/me")
    assert extract_metrics(lines(caplog)[-1])[(NAMESPACE,)]["StoreConflicts"] == 1


def test_the_busiest_accounts_are_named_in_a_line_and_never_in_a_dimension(
    admin: Client, stranger: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(30):
        admin.get("/me")
    stranger.get("/me")
    log.SAMPLE.since = -1000.0
    admin.get("/me")
    (busiest,) = [line for line in lines(caplog) if line.get("event") == "busiest_accounts"]
    assert busiest["accounts"] == [{"account": admin.account, "sampled": 3}]
    assert busiest["requests"] == 32
    for line in lines(caplog):
        dimensions = {
            line[name] for part in line.get("_aws", {}).get("CloudWatchMetrics", ()) for name in part["Dimensions"][-1]
        }
        assert not any(admin.account in value for value in dimensions)


def test_a_trace_is_followed_in_the_line_of_the_log(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    for header, logged in (
        (f"00-{trace}-00f067aa0ba902b7-01", trace),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{trace}-00f067aa0ba902b7-01, secret", None),
    ):
        admin.send("GET", "/me", traceparent=header)
        assert lines(caplog)[-1].get("trace_id") == logged


def test_the_authorizer_has_no_metrics_of_routes(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    authorize(gateway.event("GET", "/me", {"Authorization": f"Bearer {admin.token}"}), None)
    assert "_aws" not in lines(caplog)[-1]
