"""The size of a JSON text inside a JSON string."""

import json

import pytest

from chalicelib.schema import sizes


@pytest.mark.parametrize("value", ["", "a", 'a "quoted" word', "back\\slash", {"a": ['"', "\\"]}, "é\n"])
def test_a_text_is_as_long_as_json_writes_it(value: object) -> None:
    text = json.dumps(value)
    assert sizes.measure_encoded(text) == len(json.dumps(text)) - 2  # the quotes around it
