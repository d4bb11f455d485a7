"""The configuration of Envoy's access logs. Pure.

A line has at most 4 KiB. Visitors' texts are cut, since a byte can become four in JSON; `header_bytes` is the full
size. Of refused requests and those for unknown hosts, one in ten is logged.
"""

from collections.abc import Mapping

from envoy.config.accesslog.v3.accesslog_pb2 import (
    AccessLog,
    AccessLogFilter,
    AndFilter,
    ComparisonFilter,
    ExtensionFilter,
    OrFilter,
    RuntimeFilter,
    StatusCodeFilter,
)
from envoy.config.core.v3.base_pb2 import RuntimeUInt32
from envoy.config.core.v3.substitution_format_string_pb2 import SubstitutionFormatString
from envoy.extensions.access_loggers.file.v3.file_pb2 import FileAccessLog
from envoy.extensions.access_loggers.filters.cel.v3.cel_pb2 import ExpressionFilter
from envoy.type.v3.percent_pb2 import FractionalPercent

from edge.envoy import parts
from edge.process.settings import Settings

_SAMPLE = AccessLogFilter(
    runtime_filter=RuntimeFilter(
        runtime_key="edge.sampled", percent_sampled=FractionalPercent(numerator=10), use_independent_randomness=True
    )
)
_KNOWN = "'edge' in xds.virtual_host_metadata.filter_metadata"
_REFUSALS = "^(rbac_|local_rate_limited)"  # blocked networks, and visitors above the rate limit
_REQUEST_FIELDS: Mapping[str, str] = {
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
_CONNECTION_FIELDS: Mapping[str, str] = {
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


def build_request_log(settings: Settings, owner: Mapping[str, str]) -> AccessLog:
    """Return the log of requests, without bodies, cookies and queries. `owner` are the first fields."""
    log = _build_log(settings, {**owner, **_REQUEST_FIELDS})
    log.filter.CopyFrom(_any_of(_important_requests(), _SAMPLE))
    return log


def build_connection_log(settings: Settings, owner: Mapping[str, str]) -> AccessLog:
    """Return the log of byte connections. `owner` are the first fields."""
    return _build_log(settings, {**owner, **_CONNECTION_FIELDS})


def matches(expression: str) -> AccessLogFilter:
    """Return the filter by an expression in CEL."""
    config = parts.pack(ExpressionFilter(expression=expression))
    return AccessLogFilter(extension_filter=ExtensionFilter(name="cel", typed_config=config))


def all_of(*filters: AccessLogFilter) -> AccessLogFilter:
    """Return the filter that requires all of some filters."""
    return AccessLogFilter(and_filter=AndFilter(filters=filters))


def _any_of(*filters: AccessLogFilter) -> AccessLogFilter:
    return AccessLogFilter(or_filter=OrFilter(filters=filters))


def _build_log(settings: Settings, fields: Mapping[str, str]) -> AccessLog:
    line = SubstitutionFormatString(json_format=parts.struct(time="%START_TIME%", **fields))
    file = FileAccessLog(path=settings.access_log_file, log_format=line)
    return AccessLog(name="envoy.access_loggers.file", typed_config=parts.pack(file))


def _important_requests() -> AccessLogFilter:
    """Return the filter of requests that are always logged.

    These are requests to an account's hosts within the limits, and all with unusual statuses.
    """
    unusual = all_of(*map(_status_is_not, (403, 404, 421, 429)))
    return _any_of(unusual, matches(f"{_KNOWN} && !response.code_details.matches('{_REFUSALS}')"))


def _status_is_not(status: int) -> AccessLogFilter:
    value = RuntimeUInt32(default_value=status, runtime_key=f"edge.not_{status}")
    comparison = ComparisonFilter(op=ComparisonFilter.NE, value=value)
    return AccessLogFilter(status_code_filter=StatusCodeFilter(comparison=comparison))
