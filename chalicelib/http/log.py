"""One JSON line per request and per warning, without headers, bodies and texts of exceptions.

The text of an exception can contain values of the request. So only its type and its position in the code are logged.
With METRICS_NAMESPACE a line also has metrics, in CloudWatch's embedded metric format. Their dimensions are the service
and its routes. Accounts, keys and ids are not dimensions, because each value of a dimension is billed.
"""

import json
import logging
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chalicelib.storage import diagnosis, snapshot
from chalicelib.storage.client import call_counts
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord

_logger = logging.getLogger("tunnel_edge")

_SAMPLED = 10  # one in ten requests is counted by account
_PERIOD = 60  # seconds between two log lines with the busiest accounts
_MOST = 10
_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_BY_SERVICE, _BY_ROUTE = [["service"]], [["service"], ["service", "operation"]]
_OF_ROUTES = [{"Name": name, "Unit": "Count"} for name in ("Requests", "Errors")]
_OF_ROUTES.append({"Name": "Latency", "Unit": "Milliseconds"})


class Sample:
    """Counts of the requests to this process since `since`, a time of `time.monotonic`.

    `requests` counts all requests. `accounts` counts a sample of the requests by account.
    """

    def __init__(self) -> None:
        self.accounts: Counter[str] = Counter()
        self.restart()

    def restart(self) -> None:
        """Set all counts to zero and start again now."""
        self.requests, self.since = 0, time.monotonic()
        self.accounts.clear()


SAMPLE = Sample()
snapshot.on_restore(SAMPLE.restart)


def start() -> None:
    """Start logging to standard output, from LOG_LEVEL (default INFO) up."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _logger.handlers = [handler]
    _logger.propagate = False
    level = logging.getLevelName(os.environ.get("LOG_LEVEL", "INFO").upper())
    _logger.setLevel(level if isinstance(level, int) else logging.INFO)


def request(line: Mapping[str, Any], error: BaseException | None) -> None:
    """Log an answered request. For a 5xx, also log the error and where in the code it was raised."""
    level = logging.ERROR if error else logging.INFO
    if not _logger.isEnabledFor(level):
        return
    text = json.dumps({"level": logging.getLevelName(level), **line, **(_describe_cause(error) if error else {})})
    if namespace := os.environ.get("METRICS_NAMESPACE"):
        text = f"{text[:-1]}{_format_metrics(namespace, line)}}}"
        _count(line.get("account"))
    # `Logger.info` would search the stack for its caller, which takes time
    _logger.handle(logging.LogRecord(_logger.name, level, "", 0, text, (), None))


def warning(event: str, sentence: str) -> None:
    """Log a sentence for the operator under the name of an event."""
    _logger.warning(json.dumps({"level": "WARNING", "event": event, "msg": sentence}))


def _format_metrics(namespace: str, line: Mapping[str, Any]) -> str:
    """Return the metrics of a log line. The text continues the JSON object of the line.

    Returns "" if the line has no metrics.
    """
    counts = call_counts.take() if call_counts.COUNTS else {}
    route, values = line.get("route"), ""
    if route:
        status = line["status"]
        if status == 429:
            counts["Throttled"] = 1
        values = f', "Errors": {int(status >= 500)}, "Latency": {line["duration_ms"]}'
    elif not counts:
        return ""
    if counts:
        values = f"{values}, {json.dumps(counts)[1:-1]}"
    is_by_route = os.environ.get("METRICS_BY_ROUTE") == "true"
    method = line["method"] if line["method"] in _METHODS else "OTHER"
    operation = f"{method} {route}" if route else ""
    directives = _format_directives(namespace, operation, is_by_route, tuple(counts))
    return f'{values}, {directives}, "Timestamp": {int(time.time() * 1000)}}}'


@lru_cache(maxsize=1024)
def _format_directives(namespace: str, operation: str, is_by_route: bool, counters: tuple[str, ...]) -> str:
    """Return JSON with the dimensions of a log line, and the declaration of its metrics for CloudWatch.

    The JSON has neither its outer braces nor the timestamp, so that `_format_metrics` can continue it. The result is
    cached, because it is the same for many lines.
    """
    dimensions, directives = {"service": namespace}, []
    if operation:
        dimensions["operation"] = operation
        by = _BY_ROUTE if is_by_route else _BY_SERVICE
        directives.append({"Namespace": namespace, "Dimensions": by, "Metrics": _OF_ROUTES})
    if counters:
        metrics = [{"Name": name, "Unit": "Count"} for name in counters]
        directives.append({"Namespace": namespace, "Dimensions": _BY_SERVICE, "Metrics": metrics})
    requests = {"Requests": 1} if operation else {}
    return json.dumps({**dimensions, **requests, "_aws": {"CloudWatchMetrics": directives}})[1:-2]


def _count(account: str | None) -> None:
    """Count a request. Count every _SAMPLED-th request by account too. Log the busiest accounts every minute."""
    SAMPLE.requests += 1
    if account and SAMPLE.requests % _SAMPLED == 0:
        SAMPLE.accounts[account] += 1
    if time.monotonic() - SAMPLE.since >= _PERIOD and SAMPLE.accounts:
        busiest = [{"account": name, "sampled": count} for name, count in SAMPLE.accounts.most_common(_MOST)]
        line = {"level": "INFO", "event": "busiest_accounts", "requests": SAMPLE.requests, "accounts": busiest}
        SAMPLE.restart()
        _logger.info(json.dumps(line))


def _describe_cause(error: BaseException) -> dict[str, Any]:
    """Return the log fields of the error that caused a 5xx.

    If a call to AWS failed, the field `store` has the table, KMS key, region and endpoint, and a sentence about the
    missing resource, setting or permission.
    """
    error = error.__cause__ if isinstance(error.__cause__, AwsError) else error
    store = {"store": diagnosis.build_log_fields(error)} if isinstance(error, AwsError) else {}
    malformed = {"event": decoding.EVENT, **error.facts} if isinstance(error, MalformedRecord) else {}
    return {
        "error": type(error).__name__,
        "code": getattr(error, "code", None),
        **store,
        **malformed,
        "at": _list_frames(error),
    }


def _list_frames(error: BaseException) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
