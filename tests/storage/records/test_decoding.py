"""Records are decoded by the annotations of their type, or are malformed."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from chalicelib.storage.records import decoding
from chalicelib.storage.records.decoding import MalformedRecord


@dataclass(frozen=True)
class Part:
    host: str
    port: int = 443


@dataclass(frozen=True)
class Whole:
    name: str
    kind: Literal["a", "b"] = "a"
    end: int | None = None
    part: Part | None = None
    labels: list[str] = field(default_factory=list)


def test_a_record_is_decoded_without_unknown_fields() -> None:
    record = {"name": "x", "kind": "b", "end": 7, "part": {"host": "h"}, "labels": ["l"], "later": True}
    assert decoding.decode(Whole, record) == Whole("x", "b", 7, Part("h"), ["l"])


def test_missing_fields_have_their_defaults_and_share_none() -> None:
    first, second = (decoding.decode(Whole, {"name": "x"}) for _ in range(2))
    assert first == second == Whole("x")
    assert first.labels is not second.labels


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ("text", ""),
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": "x", "kind": "c"}, "kind"),
        ({"name": "x", "end": "7"}, "end"),
        ({"name": "x", "end": True}, "end"),
        ({"name": "x", "labels": {}}, "labels"),
        ({"name": "x", "labels": ["l", 1]}, "labels"),
        ({"name": "x", "part": {"host": "h", "port": "443"}}, "part"),
        ({"name": "x", "part": {}}, "part"),
    ],
)
def test_a_record_of_another_form_is_malformed(record: Any, field: str) -> None:
    with pytest.raises(MalformedRecord) as malformed:
        decoding.decode(Whole, record)
    assert (malformed.value.stored, malformed.value.field.partition(".")[0].partition("[")[0]) == ("Whole", field)


def test_a_stored_time_is_a_second_or_malformed() -> None:
    assert decoding.second("Whole", "end", "1970-01-02T00:00:00Z") == 86_400
    for text in ("", "soon", "2026-02-30T00:00:00Z"):
        with pytest.raises(MalformedRecord, match=r"^Whole: end must be an RFC 3339 time\.$"):
            decoding.second("Whole", "end", text)
