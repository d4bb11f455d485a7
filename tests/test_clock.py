"""The clock: moments as RFC 3339 writes them, in UTC and whole seconds."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib import clock


def test_now_is_in_utc_and_whole_seconds() -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    now = clock.now()
    assert before < now <= datetime.now(UTC)
    assert (now.utcoffset(), now.microsecond) == (timedelta(), 0)


def test_a_moment_is_written_with_a_z() -> None:
    assert clock.rfc3339(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00Z"
    assert clock.rfc3339(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"


@given(st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0)))
def test_what_is_written_is_read_again(moment: datetime) -> None:
    assert clock.parse(clock.rfc3339(moment)) == moment


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31t12:00:00z", "2026-01-31T12:00:00Z"),
        ("2026-01-31 12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00Z"),
        ("2026-01-31T23:59:59-23:59", "2026-02-01T23:58:59Z"),
        ("2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.999999999999Z", "2026-01-31T12:00:00Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("0001-01-01T00:00:00-01:00", "0001-01-01T01:00:00Z"),
        ("1969-12-31T23:59:59.9Z", "1969-12-31T23:59:59Z"),
    ],
)
def test_a_time_of_any_offset_and_fraction_is_read(text: str, utc: str) -> None:
    assert clock.rfc3339(clock.parse(text)) == utc


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+0100",
        "2026-W05-6T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00+01:60",
        "2026-1-31T12:00:00Z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
        "2026-01-31T12:00:00ZZ",
        "٢٠٢٦-01-31T12:00:00Z",
        "\ud800",
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be an RFC 3339 time, for example 2026-01-31T12:00:00Z$"):
        clock.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T12:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-01-31T12:00:00+24:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a date and time that exist$"):
        clock.parse(text)


@settings(max_examples=50)
@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", fullmatch=True))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert clock.parse(text).utcoffset() == timedelta()
