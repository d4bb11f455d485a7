"""The configuration of Envoy's access logs. This file does no I/O.

A line has at most 4 KiB. Texts from visitors are truncated, because one byte can become four bytes in JSON. The field
`header_bytes` is the size of all headers before the truncation. Only one in ten refused requests is logged, and only
one in ten requests for unknown hosts.
"""

from collections.abc import Mapping
from functools import cache

from edge.envoy import parts, v3
from edge.envoy.filters.sign_in import HEADERS
from edge.process.settings import Settings

_SAMPLE = v3.AccessLogFilter(
    runtime_filter=v3.RuntimeFilter(
        runtime_key="edge.sampled", percent_sampled=v3.FractionalPercent(numerator=10), use_independent_randomness=True
    )
)
_KNOWN = "'edge' in xds.virtual_host_metadata.filter_metadata"
# Response code details of requests from blocked networks, and of requests above the visitor's rate limit.
_REFUSALS = "^(rbac_|local_rate_limited)"
_REQUEST_FIELDS = {
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
_CONNECTION_FIELDS = {
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


def build_request_log(settings: Settings, owner: Mapping[str, str]) -> v3.AccessLog:
    """Return the access log of requests. The log has no bodies, cookies or queries.

    Each line begins with the fields `owner`, such as the ids of the account and the edge.
    """
    log = _log(_file(settings.access_log_file, {**owner, **_REQUEST_FIELDS}))
    log.filter.CopyFrom(_any_of(_important_requests(), _SAMPLE))
    return log


def build_session_log(settings: Settings, owner: Mapping[str, str]) -> v3.AccessLog:
    """Return the log of requests to edges with OAuth. The field `session` is true for requests with a session.

    A request has a session if it has a header that only the edge can set. Two logs, each with a constant value of
    `session`, would take 30 KiB more.
    """
    return build_request_log(settings, {**owner, "session": f"%TYPED_CEL('{HEADERS['provider']}' in request.headers)%"})


def build_connection_log(settings: Settings, owner: Mapping[str, str]) -> v3.AccessLog:
    """Return the access log of byte connections.

    Each line begins with the fields `owner`, such as the ids of the account and the tunnel.
    """
    file = parts.copy(_connection_file(settings.access_log_file))
    fields = file.log_format.json_format.fields
    for name, value in owner.items():
        fields[name].string_value = value
    return _log(file)


def matches(expression: str) -> v3.AccessLogFilter:
    """Return the log filter that is true if a CEL expression is true."""
    config = parts.pack(v3.ExpressionFilter(expression=expression))
    return v3.AccessLogFilter(extension_filter=v3.ExtensionFilter(name="cel", typed_config=config))


def all_of(*filters: v3.AccessLogFilter) -> v3.AccessLogFilter:
    """Return the log filter that is true if all of these filters are true."""
    return v3.AccessLogFilter(and_filter=v3.AndFilter(filters=filters))


def _any_of(*filters: v3.AccessLogFilter) -> v3.AccessLogFilter:
    return v3.AccessLogFilter(or_filter=v3.OrFilter(filters=filters))


def _file(path: str, fields: Mapping[str, str]) -> v3.FileAccessLog:
    line = v3.SubstitutionFormatString(json_format=parts.struct(time="%START_TIME%", **fields))
    return v3.FileAccessLog(path=path, log_format=line)


@cache
def _connection_file(path: str) -> v3.FileAccessLog:
    return _file(path, _CONNECTION_FIELDS)


def _log(file: v3.FileAccessLog) -> v3.AccessLog:
    return v3.AccessLog(name="envoy.access_loggers.file", typed_config=parts.pack(file))


def _important_requests() -> v3.AccessLogFilter:
    """Return the log filter for requests that are always logged, not only one in ten.

    Requests with a status other than 403, 404, 421 and 429 are always logged. A request with one of these statuses is
    always logged if its host belongs to an account, the visitor's network is not blocked, and the visitor is not above
    the rate limit.
    """
    unusual = all_of(*map(_status_is_not, (403, 404, 421, 429)))
    return _any_of(unusual, matches(f"{_KNOWN} && !response.code_details.matches('{_REFUSALS}')"))


def _status_is_not(status: int) -> v3.AccessLogFilter:
    value = v3.RuntimeUInt32(default_value=status, runtime_key=f"edge.not_{status}")
    comparison = v3.ComparisonFilter(op=v3.ComparisonFilter.NE, value=value)
    return v3.AccessLogFilter(status_code_filter=v3.StatusCodeFilter(comparison=comparison))
