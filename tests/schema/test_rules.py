"""Rules of fields that depend on other fields and on the path."""

from collections.abc import Mapping
from typing import Annotated

from chalicelib.schema import models
from chalicelib.schema.rules import WithContext, WithData
from chalicelib.schema.shapes import Shape


def test_a_rule_can_look_at_the_fields_above_and_at_the_path() -> None:
    arguments: list[Mapping[str, object]] = []

    class Looking(Shape):
        first: int = 0
        second: Annotated[int, WithData(lambda value, above: arguments.append({**above}) or value)] = 0
        third: Annotated[int, WithContext(lambda value, path: arguments.append(path) or value)] = 0

    models.check(Looking, {"first": 1, "second": 2, "third": 3}, {"id": "a"})
    models.check(Looking, {"first": "wrong", "second": 2, "third": 3})
    assert arguments == [{"first": 1}, {"id": "a"}, {}, {}]
