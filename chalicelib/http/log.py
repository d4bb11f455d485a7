"""One JSON line per request and per warning, without headers, bodies and texts of exceptions.

An exception is logged only by its type and its place in the code, because its text may contain values of the request.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from chalicelib.storage import diagnosis
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord

_logger = logging.getLogger("tunnel_edge")


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
    _logger.log(level, json.dumps({"level": logging.getLevelName(level), **line, **(_cause(error) if error else {})}))


def warning(event: str, sentence: str) -> None:
    """Log a sentence that the operator must act on, under the name of an event."""
    _logger.warning(json.dumps({"level": "WARNING", "event": event, "msg": sentence}))


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
