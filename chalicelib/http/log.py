"""One JSON line per request and per warning, without headers, bodies and texts of exceptions.

An exception is logged only by its type and its place in the code, because its text may contain values of the request.
With METRICS_NAMESPACE a line also has metrics, in CloudWatch's embedded metric format. Their dimensions are the service
and its routes: each value of a dimension is billed, so that no account, key or id is one.
"""

import json
import logging
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from chalicelib.storage import diagnosis, snapshot
from chalicelib.storage.client import call_counts
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord

_logger = logging.getLogger("tunnel_edge")

_SAMPLED = 10  # requests, of which one is counted for its account
_PERIOD = 60  # seconds between lines with the busiest accounts
_MOST = 10
_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_BY_SERVICE, _BY_ROUTE = '[["service"]]', '[["service"], ["service", "operation"]]'
_OF_ROUTES = [{"Name": name, "Unit": "Count"} for name in ("Requests", "Errors")]
_OF_ROUTES.append({"Name": "Latency", "Unit": "Milliseconds"})


class Sample:
    """The accounts of some requests of this process, since a time."""

    def __init__(self) -> None:
        self.accounts: Counter[str] = Counter()
        self.restart()

    def restart(self) -> None:
        """Forget all requests."""
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
    """Log an answered request, and for a 5xx the error's place in the code."""
    level = logging.ERROR if error else logging.INFO
    if not _logger.isEnabledFor(level):
        return
    named = {"level": logging.getLevelName(level), **line, **(_cause(error) if error else {})}
    directives = ""
    if namespace := os.environ.get("METRICS_NAMESPACE"):
        values, directives = _metrics(namespace, line)
        named |= values
        _count(line.get("account"))
    text = json.dumps(named)
    _logger.log(level, f"{text[:-1]}, {directives}}}" if directives else text)


def warning(event: str, sentence: str) -> None:
    """Log a sentence that the operator must act on, under the name of an event."""
    _logger.warning(json.dumps({"level": "WARNING", "event": event, "msg": sentence}))


def _metrics(namespace: str, line: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the metrics of a line, and their directives as JSON, or "" without metrics."""
    counts = call_counts.take() if call_counts.COUNTS else {}
    values: dict[str, Any] = {"service": namespace, **counts}
    dimensions = ""
    if line.get("route"):
        status = line["status"]
        counts |= {"Throttled": 1} if status == 429 else {}
        method = line["method"] if line["method"] in _METHODS else "OTHER"
        values |= {"Requests": 1, "Errors": int(status >= 500), "Latency": line["duration_ms"], **counts}
        values["operation"] = f"{method} {line['route']}"
        dimensions = _BY_ROUTE if os.environ.get("METRICS_BY_ROUTE") == "true" else _BY_SERVICE
    directives = _directives(namespace, dimensions, tuple(counts))
    if not directives:
        return {}, ""
    return values, f'"_aws": {{"Timestamp": {int(time.time() * 1000)}, "CloudWatchMetrics": {directives}}}'


@cache
def _directives(namespace: str, dimensions: str, counted: tuple[str, ...]) -> str:
    """Return the directives for metrics of a request and for counts as JSON, or "" without both."""
    made = []
    if dimensions:
        made.append({"Namespace": namespace, "Dimensions": json.loads(dimensions), "Metrics": _OF_ROUTES})
    if counted:
        named = [{"Name": name, "Unit": "Count"} for name in counted]
        made.append({"Namespace": namespace, "Dimensions": [["service"]], "Metrics": named})
    return json.dumps(made) if made else ""


def _count(account: str | None) -> None:
    """Count a sample of the requests by account, and log the busiest accounts every minute."""
    SAMPLE.requests += 1
    if account and SAMPLE.requests % _SAMPLED == 0:
        SAMPLE.accounts[account] += 1
    if time.monotonic() - SAMPLE.since >= _PERIOD and SAMPLE.accounts:
        busiest = [{"account": name, "sampled": count} for name, count in SAMPLE.accounts.most_common(_MOST)]
        line = {"level": "INFO", "event": "busiest_accounts", "requests": SAMPLE.requests, "accounts": busiest}
        SAMPLE.restart()
        _logger.info(json.dumps(line))


def _cause(error: BaseException) -> dict[str, Any]:
    """Return the log fields of the error that caused a 5xx.

    For an error of the store, they include its settings and what is missing.
    """
    store = {"store": diagnosis.of(error)} if isinstance(error, AwsError) else {}
    malformed = {"event": decoding.EVENT, **error.facts} if isinstance(error, MalformedRecord) else {}
    return {
        "error": type(error).__name__,
        "code": getattr(error, "code", None),
        **store,
        **malformed,
        "at": _frames(error),
    }


def _frames(error: BaseException) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
