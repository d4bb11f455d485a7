"""The alarms of the template: each is provoked once by what it watches, and stays quiet on a usual day."""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from chalicelib.http import log
from chalicelib.storage.client import call_counts
from infra.deploy.templates import parse_template
from tests.conftest import ROOT

TEMPLATE = parse_template((ROOT / "infra" / "deploy" / "api.yaml").read_text())
RESOURCES: Mapping[str, Any] = TEMPLATE["Resources"]
ALARMS = {
    name: resource["Properties"]
    for name, resource in RESOURCES.items()
    if resource.get("Type") == "AWS::CloudWatch::Alarm"
}
FILTERS = {
    name: resource["Properties"]
    for name, resource in RESOURCES.items()
    if resource.get("Type") == "AWS::Logs::MetricFilter"
}
STACK = {"Ref": "AWS::StackName"}
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}
# The metrics that AWS publishes, with a value of a period that is usual and one that is not.
OF_AWS: Mapping[str, tuple[str, str, float, float]] = {
    "ErrorsAlarm": ("AWS/ApiGateway", "5XXError", 0.001, 0.02),
    "LatencyAlarm": ("AWS/ApiGateway", "Latency", 200, 4000),
    "ReadThrottlesAlarm": ("AWS/DynamoDB", "ReadThrottleEvents", 0, 11),
    "WriteThrottlesAlarm": ("AWS/DynamoDB", "WriteThrottleEvents", 0, 11),
    "ApiFunctionThrottledAlarm": ("AWS/Lambda", "Throttles", 0, 1),
    "AuthorizerThrottledAlarm": ("AWS/Lambda", "Throttles", 0, 1),
    "CertificateAlarm": ("AWS/CertificateManager", "DaysToExpiry", 60, 29),
}
# The lines of a log in a period that is usual, and in one that is not.
OF_FILTERS: Mapping[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {
    "AuthorizerAlarm": ([{"error": "UNAUTHORIZED"}] * 50, [{"error": "AUTHORIZER_FAILURE"}] * 11),
    "MalformedRecordsAlarm": ([{"event": "settings_differ"}], [{"event": "malformed_record"}]),
    "ThrottledExchangesAlarm": (
        [{"route": "/tokens", "status": "429"}] * 10 + [{"route": "/me", "status": "429"}] * 50,
        [{"route": "/tokens", "status": "429"}] * 11,
    ),
    "UnauthenticatedAlarm": ([{"status": "401"}] * 1000 + [{"status": "200"}] * 1000, [{"status": "401"}] * 1001),
    "ForbiddenAlarm": ([{"status": "403"}] * 500, [{"status": "403"}] * 501),
}
# What the service counts in a period that is usual, and in one that is not.
OF_LOG: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "KmsErrorsAlarm": ({call_counts.KMS_CALLS: 900}, {call_counts.KMS_ERRORS: 1}),
    "StoreConflictsAlarm": ({call_counts.CONFLICTS: 500}, {call_counts.CONFLICTS: 501}),
}


def test_each_alarm_has_its_cause() -> None:
    assert ALARMS.keys() == OF_AWS.keys() | OF_FILTERS.keys() | OF_LOG.keys()


@pytest.mark.parametrize("name", OF_AWS)
def test_a_metric_of_aws_rings_its_alarm(name: str) -> None:
    namespace, metric, usual, unusual = OF_AWS[name]
    assert (ALARMS[name]["Namespace"], ALARMS[name]["MetricName"]) == (namespace, metric)
    assert (rings(name, usual), rings(name, unusual)) == (False, True)


@pytest.mark.parametrize("name", OF_FILTERS)
def test_lines_of_a_log_ring_their_alarm(name: str) -> None:
    alarm = ALARMS[name]
    (metric_filter,) = [
        candidate
        for candidate in FILTERS.values()
        if candidate["MetricTransformations"][0]["MetricName"] == alarm["MetricName"]
    ]
    (transformation,) = metric_filter["MetricTransformations"]
    assert alarm["Namespace"] == transformation["MetricNamespace"] == STACK
    usual, unusual = (
        sum(matches(metric_filter["FilterPattern"], line) for line in lines) for lines in OF_FILTERS[name]
    )
    assert (rings(name, usual), rings(name, unusual)) == (False, True)


@pytest.mark.parametrize("name", OF_LOG)
def test_what_the_service_counts_rings_its_alarm(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = ALARMS[name]
    assert (alarm["Namespace"], alarm["Dimensions"]) == (STACK, [{"Name": "service", "Value": STACK}])
    usual, unusual = (read_published(alarm["MetricName"], counts, caplog, monkeypatch) for counts in OF_LOG[name])
    assert (rings(name, usual), rings(name, unusual)) == (False, True)


def read_published(
    metric: str, counts: Mapping[str, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> float:
    """Return the value of a metric for the service, in the line of a request that follows some counts."""
    monkeypatch.setenv("METRICS_NAMESPACE", "stack")
    call_counts.take()
    call_counts.COUNTS.update(counts)
    caplog.clear()
    with caplog.at_level(logging.INFO, "tunnel_edge"):
        log.request({"method": "GET", "route": "/me", "status": 200, "duration_ms": 1.0}, None)
    line = json.loads(caplog.messages[-1])
    names: Iterable[str] = (
        entry["Name"]
        for directive in line["_aws"]["CloudWatchMetrics"]
        if ["service"] in directive["Dimensions"] and directive["Namespace"] == line["service"] == "stack"
        for entry in directive["Metrics"]
    )
    return float(line[metric]) if metric in names else 0.0


def rings(name: str, value: float) -> bool:
    """Return whether an alarm rings for the value of each period."""
    return COMPARE[ALARMS[name]["ComparisonOperator"]](value, ALARMS[name]["Threshold"])


def matches(pattern: str, line: Mapping[str, str]) -> bool:
    """Return whether a filter of CloudWatch Logs matches a line: the part of its language that the template uses."""
    conditions = pattern.strip("{} ").split(" && ")
    return all(_is_true(condition, line) for condition in conditions)


def _is_true(condition: str, line: Mapping[str, str]) -> bool:
    form = re.fullmatch(r'\$\.(\w+) = "([^"]*)"', condition)
    assert form, condition
    value = line.get(form[1], "")
    return value.startswith(form[2][:-1]) if form[2].endswith("*") else value == form[2]


def test_alarms_ring_only_where_there_is_a_topic() -> None:
    assert all(
        alarm["AlarmActions"] == [{"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, {"Ref": "AWS::NoValue"}]}]
        for alarm in ALARMS.values()
    )


def test_the_dashboard_is_json_and_names_only_metrics_that_exist() -> None:
    body = RESOURCES["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    widgets = json.loads(re.sub(r"\$\{[\w:.]+\}", "x", body))["widgets"]
    names = {entry[1] for widget in widgets for entry in widget["properties"].get("metrics", ()) if entry[0] != "..."}
    counters = {call_counts.CONFLICTS, call_counts.THROTTLES, call_counts.KMS_CALLS, call_counts.KMS_ERRORS}
    of_aws = {"4XXError", "5XXError", "ReadThrottleEvents", "WriteThrottleEvents", "Throttles", "ConcurrentExecutions"}
    assert names <= {"Requests", "Errors", "Latency", "Throttled"} | counters | of_aws
