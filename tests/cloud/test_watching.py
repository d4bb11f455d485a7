"""What the API's stack writes down of what goes on, and when it rings."""

import json
from typing import Any

from tests.cloud import stack
from tests.cloud.stack import STACK_NAME, conditional


def test_every_request_is_logged_and_logs_are_kept_for_a_time(template: dict[str, Any]) -> None:
    (stage,) = stack.of_type(template["Resources"], "AWS::ApiGateway::Stage").values()
    assert stage["AccessLogSetting"]["DestinationArn"] == {"Fn::GetAtt": ["AccessLogs", "Arn"]}
    assert json.loads(stage["AccessLogSetting"]["Format"]) == {
        "operation_id": "$context.requestId",
        "account": "$context.authorizer.account",
        "key": "$context.authorizer.key",
        "method": "$context.httpMethod",
        "route": "$context.resourcePath",
        "status": "$context.status",
        "bytes": "$context.responseLength",
        "duration_ms": "$context.responseLatency",
        "authorizer_ms": "$context.authorizer.latency",
        "error": "$context.error.responseType",
        "ip": "$context.identity.sourceIp",
        "time": "$context.requestTime",
    }
    assert stack.of_type(template["Resources"], "AWS::Logs::LogGroup") == {
        name: {"RetentionInDays": {"Ref": "LogRetentionDays"}}
        for name in ("APIHandlerLogs", "AuthorizerLogs", "AccessLogs")
    }


def dimension(name: str, value: Any) -> dict[str, Any]:
    return {"Dimensions": [{"Name": name, "Value": value}]}


API, TABLE = dimension("ApiName", STACK_NAME), dimension("TableName", {"Ref": "TableName"})
MEAN, P99, SUM = {"Statistic": "Average"}, {"ExtendedStatistic": "p99"}, {"Statistic": "Sum"}
ALARMS: dict[str, tuple[Any, ...]] = {  # what is measured of what, how much is too much, for how many periods
    "ErrorsAlarm": ("AWS/ApiGateway", "5XXError", API, MEAN, 0.01, 2),
    "LatencyAlarm": ("AWS/ApiGateway", "Latency", API, P99, 3000, 3),
    "ReadThrottlesAlarm": ("AWS/DynamoDB", "ReadThrottleEvents", TABLE, SUM, 10, 1),
    "WriteThrottlesAlarm": ("AWS/DynamoDB", "WriteThrottleEvents", TABLE, SUM, 10, 1),
    "AuthorizerAlarm": (STACK_NAME, "AuthorizerFailures", {}, SUM, 10, 1),
}


def test_an_alarm_rings_for_each_thing_that_goes_wrong(template: dict[str, Any]) -> None:
    alarms = stack.of_type(template["Resources"], "AWS::CloudWatch::Alarm")
    assert template["Resources"]["RestAPI"]["Properties"]["Name"] == STACK_NAME
    assert alarms == {
        name: {
            "AlarmDescription": alarms[name]["AlarmDescription"],
            "Namespace": namespace,
            "MetricName": metric,
            **of,
            **statistic,
            "Threshold": threshold,
            "ComparisonOperator": "GreaterThanThreshold",
            "Period": 300,
            "EvaluationPeriods": periods,
            "TreatMissingData": "notBreaching",
            "AlarmActions": [conditional("HasAlarmTopic", "AlarmTopicArn")],
        }
        for name, (namespace, metric, of, statistic, threshold, periods) in ALARMS.items()
    }


def test_a_failure_of_the_authorizer_is_counted_and_a_wrong_key_is_not(template: dict[str, Any]) -> None:
    failures = {
        "MetricNamespace": STACK_NAME,
        "MetricName": "AuthorizerFailures",
        "MetricValue": "1",
        "DefaultValue": 0,
    }
    assert stack.of_type(template["Resources"], "AWS::Logs::MetricFilter") == {
        "AuthorizerFailures": {
            "LogGroupName": {"Ref": "AccessLogs"},
            "FilterPattern": '{ $.error = "AUTHORIZER_*" }',
            "MetricTransformations": [failures],
        }
    }
