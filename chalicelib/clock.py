"""Time in UTC and whole seconds, written as RFC 3339 with a Z (SPEC 2.1)."""

import re
import time
from datetime import UTC, datetime

MAX_SKEW = 5  # the default of the setting CLOCK_SKEW, in seconds

# RFC 3339 allows neither 24:00 nor +01:60, but some versions of Python accept them.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ](?!24)\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)", flags=re.ASCII)


def now() -> datetime:
    """Return the current time in UTC, truncated to whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def seconds() -> int:
    """Return the current Unix second."""
    return int(time.time())


def at(second: int) -> datetime:
    """Return the time of a Unix second, in UTC."""
    return datetime.fromtimestamp(second, UTC)


def rfc3339(moment: datetime) -> str:
    """Return a UTC time as RFC 3339 text, for example 2026-01-31T12:00:00Z."""
    return moment.isoformat().replace("+00:00", "Z")


def parse(text: str) -> datetime:
    """Parse an RFC 3339 text; return UTC, truncated to whole seconds. Raises ValueError."""
    if not _RFC3339.fullmatch(text):
        raise ValueError("must be an RFC 3339 time, for example 2026-01-31T12:00:00Z")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        raise ValueError("must be a date and time that exist") from None
