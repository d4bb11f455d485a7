"""JSON Schema of rules: a limit in bytes, and two rules of one field."""

import pytest

from chalicelib.schema import json_schema


def test_a_limit_in_bytes_bounds_the_characters_too() -> None:
    assert json_schema.at_most_bytes(255) == {"maxLength": 255, "x-max-bytes": 255}


def test_two_rules_are_joined_unless_they_differ() -> None:
    first = {"type": "string", "maxLength": 5}
    assert json_schema.merge(first, {"maxLength": 5, "pattern": "^a$"}) == {**first, "pattern": "^a$"}
    with pytest.raises(ValueError, match=r"^the rules of a field must not set maxLength to different values: "):
        json_schema.merge(first, {"maxLength": 6})
