"""The time, in one place: UTC, whole seconds, written as RFC 3339 with a Z (SPEC 2.1)."""

import re
from datetime import UTC, datetime

# Pythons differ in whether 24:00 and +01:60 are times: RFC 3339 knows neither.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ](?!24)\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)", flags=re.ASCII)


def now() -> datetime:
    """The current moment, in UTC, cut to whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def rfc3339(moment: datetime) -> str:
    """A UTC moment of whole seconds as text, for example 2026-01-31T12:00:00Z."""
    return moment.isoformat().replace("+00:00", "Z")


def parse(text: str) -> datetime:
    """The moment that an RFC 3339 text names, in UTC, cut to whole seconds; ValueError if it names none."""
    if not _RFC3339.fullmatch(text):
        raise ValueError("must be an RFC 3339 time, for example 2026-01-31T12:00:00Z")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        raise ValueError("must be a date and time that exist") from None
