"""Small messages: exact durations, and packed messages that do not depend on the order of a map."""

import pytest

from edge.envoy import parts, v3


@pytest.mark.parametrize(("value", "expected"), [(0, "0s"), (10, "10s"), (0.1, "0.100s"), (0.133, "0.133s")])
def test_a_duration_is_exact(value: float, expected: str) -> None:
    assert parts.seconds(value).ToJsonString() == expected


def test_a_packed_message_does_not_depend_on_the_order_of_its_maps() -> None:
    values = {f"name-{number}": str(number) for number in range(50)}
    first, second = parts.struct(**values), parts.struct(**dict(reversed(values.items())))
    assert parts.pack(first).value == parts.pack(second).value == first.SerializeToString(deterministic=True)


def test_a_copy_leaves_the_template_as_it_is() -> None:
    template = v3.Cluster(name="a")
    parts.copy(template).name = "b"
    assert template.name == "a"
