"""Messages of validation errors, and the paths of fields."""

import pytest

from chalicelib.schema import validation_errors


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("hostports", 0), "hostports.0"),
        (("labels", "app", "[key]"), "labels.app"),
        (("x" * 201,), "x" * 200),
        (("\ud800",), "\\ud800"),
    ],
)
def test_a_path_is_dotted_short_and_utf_8(path: tuple[int | str, ...], text: str) -> None:
    assert validation_errors.join_path(path) == text


@pytest.mark.parametrize(
    ("code", "context", "text"),
    [
        ("missing", {}, "is required"),
        ("less_than_equal", {"le": 7}, "must be at most 7"),
        ("too_long", {"max_length": 3}, "must have at most 3 entries"),
        ("value_error", {"error": ValueError("must be {odd}")}, "must be {odd}"),
        ("unheard_of", {}, "is not right"),
    ],
)
def test_an_error_has_a_sentence(code: str, context: dict[str, object], text: str) -> None:
    assert validation_errors.describe(code, context, otherwise="is not right") == text


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    assert validation_errors.describe_unknown(["a", "b"]) == "is not accepted here; accepted: a, b"
    assert validation_errors.describe_unknown([]) == "is not accepted here; accepted: none"
