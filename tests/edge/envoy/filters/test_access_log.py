"""Envoy's access logs: their fields, and which requests are in them."""

from typing import Any

from edge.envoy.filters import access_log
from edge.process.settings import Settings
from tests.edge.envoy import messages

SETTINGS = Settings(access_log="/log")
OWNER = {"account": "acct_a", "edge": "edghts_1"}
COUNTS = {
    "flags": "%RESPONSE_FLAGS%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
}


def config(log: Any) -> Any:
    """Return the path and fields of a log as JSON."""
    document = messages.to_json(log)
    assert document["name"] == "envoy.access_loggers.file"
    return document["typed_config"]["path"], document["typed_config"]["log_format"]["json_format"]


def test_the_line_of_a_request() -> None:
    path, fields = config(access_log.build_request_log(SETTINGS, OWNER))
    assert path == "/log"
    assert fields == {
        "time": "%START_TIME%",
        **OWNER,
        "host": "%REQ(:AUTHORITY):260%",
        "method": "%REQ(:METHOD):32%",
        "path": "%PATH(NQ):512%",
        "protocol": "%PROTOCOL%",
        "status": "%RESPONSE_CODE%",
        "header_bytes": "%REQUEST_HEADERS_BYTES%",
        **COUNTS,
    }


def test_the_line_of_a_connection() -> None:
    path, fields = config(access_log.build_connection_log(SETTINGS, OWNER))
    assert path == "/log"
    assert fields == {
        "time": "%START_TIME%",
        **OWNER,
        "host": "%REQUESTED_SERVER_NAME%",
        "port": "%DOWNSTREAM_LOCAL_PORT%",
        "ended": "%DOWNSTREAM_LOCAL_CLOSE_REASON%",
        "handshake": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%",
        **COUNTS,
    }
    assert "edge" not in config(access_log.build_connection_log(SETTINGS, {"tunnel": "tn_1"}))[1]


def test_all_requests_within_the_limits_and_one_in_ten_refusals_are_logged() -> None:
    log_filter = messages.to_json(access_log.build_request_log(SETTINGS, OWNER))["filter"]
    important, sample = log_filter["or_filter"]["filters"]
    assert sample["runtime_filter"]["percent_sampled"] == {"numerator": 10}
    unusual, accounts_filter = important["or_filter"]["filters"]
    comparisons = [
        status_filter["status_code_filter"]["comparison"] for status_filter in unusual["and_filter"]["filters"]
    ]
    assert [(comparison["op"], comparison["value"]["default_value"]) for comparison in comparisons] == [
        ("NE", status) for status in (403, 404, 421, 429)
    ]
    assert accounts_filter["extension_filter"]["typed_config"]["expression"] == (
        "'edge' in xds.virtual_host_metadata.filter_metadata"
        " && !response.code_details.matches('^(rbac_|local_rate_limited)')"
    )


def test_each_connection_is_logged() -> None:
    assert "filter" not in messages.to_json(access_log.build_connection_log(SETTINGS, OWNER))
