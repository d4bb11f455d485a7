"""Names of headers that visitors may send."""

import pytest
from pydantic import TypeAdapter, ValidationError

from chalicelib.schema.header_fields import KeepHeaders

NAMES: TypeAdapter[list[str]] = TypeAdapter(KeepHeaders)


@pytest.mark.parametrize(
    ("header_names", "names"),
    [(None, []), ([], []), (["X-Trace", "x-trace", "B3"], ["x-trace", "b3"]), (["x" * 64], ["x" * 64])],
)
def test_names_are_in_lower_case_and_each_is_there_once(header_names: list[str] | None, names: list[str]) -> None:
    assert NAMES.validate_python(header_names) == names


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 65, "a b", "a:", "é", "a\n"),
        *(
            "X-Forwarded-For",
            "x_forwarded_proto",
            "Forwarded",
            "X-Envoy-Retries",
            "Proxy",
            "HOST",
            "te",
            "Content_Length",
        ),
    ],
)
def test_other_names_and_those_of_connections_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        NAMES.validate_python([name])


def test_there_are_at_most_twenty() -> None:
    assert len(NAMES.validate_python([f"x-{number}" for number in range(20)])) == 20
    with pytest.raises(ValidationError):
        NAMES.validate_python([f"x-{number}" for number in range(21)])
