"""The configuration of Envoy's access logs. Pure.

A line has at most 4 KiB. Visitors' texts are cut, since a byte can become four in JSON; `header_bytes` is the full
size. Of refused requests and those for unknown hosts, one in ten is logged.
"""

from collections.abc import Mapping

from edge.envoy import json_parts as parts
from edge.envoy.resources import Json
from edge.process.settings import Settings

_SAMPLED = 10  # percent
_KNOWN = "'edge' in xds.virtual_host_metadata.filter_metadata"
_REFUSALS = "^(rbac_|local_rate_limited)"  # blocked networks, and visitors above the rate limit
_REQUEST_FIELDS: Mapping[str, Json] = {
    "host": "%REQ(:AUTHORITY):260%",
    "method": "%REQ(:METHOD):32%",
    "path": "%PATH(NQ):512%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "header_bytes": "%REQUEST_HEADERS_BYTES%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
}
_CONNECTION_FIELDS: Mapping[str, Json] = {
    "host": "%REQUESTED_SERVER_NAME%",
    "port": "%DOWNSTREAM_LOCAL_PORT%",
    "flags": "%RESPONSE_FLAGS%",
    "ended": "%DOWNSTREAM_LOCAL_CLOSE_REASON%",
    "handshake": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
}


def build_request_log(settings: Settings, whose: Mapping[str, str]) -> Json:
    """Return the log of requests, without bodies, cookies and queries. `whose` names the owner."""
    which: Json = {"or_filter": {"filters": [_important_requests(), _sample()]}}
    return {**_file(settings, {**whose, **_REQUEST_FIELDS}), "filter": which}


def build_connection_log(settings: Settings, whose: Mapping[str, str]) -> Json:
    """Return the log of byte connections. `whose` names the owner."""
    return _file(settings, {**whose, **_CONNECTION_FIELDS})


def _file(settings: Settings, words: Mapping[str, Json]) -> dict[str, Json]:
    file: Json = {
        "@type": f"{parts.TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
        "path": settings.access_log_file,
        "log_format": {"json_format": {"time": "%START_TIME%", **words}},
    }
    return {"name": "envoy.access_loggers.file", "typed_config": file}


def _important_requests() -> Json:
    """Return the filter of requests that are always logged.

    These are requests to an account's hosts within the limits, and all with unusual statuses.
    """
    cel = f"{parts.TYPE}.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
    known = parts.extension("cel", cel, expression=f"{_KNOWN} && !response.code_details.matches('{_REFUSALS}')")
    others: list[Json] = [_status_is_not(status) for status in (403, 404, 421, 429)]
    return {"or_filter": {"filters": [{"and_filter": {"filters": others}}, {"extension_filter": known}]}}


def _status_is_not(status: int) -> Json:
    value: Json = {"default_value": status, "runtime_key": f"edge.not_{status}"}
    return {"status_code_filter": {"comparison": {"op": "NE", "value": value}}}


def _sample() -> Json:
    percent: Json = {"numerator": _SAMPLED}
    return {
        "runtime_filter": {
            "runtime_key": "edge.sampled",
            "percent_sampled": percent,
            "use_independent_randomness": True,
        }
    }
