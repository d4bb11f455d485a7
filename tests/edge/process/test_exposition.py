"""The metrics of two instances as one text."""

from edge.process import exposition

OLD = b'# HELP open Open.\n# TYPE open gauge\nopen 3.0\n# TYPE seen_total counter\nseen_total{event="x y"} 1.0\n'
NEW = b"# HELP open Open.\n# TYPE open gauge\nopen 4.0\n"


def test_each_metric_is_described_once_before_the_values_of_both() -> None:
    assert exposition.join_instances({"a": OLD, "b": NEW}).decode().splitlines() == [
        "# HELP open Open.",
        "# TYPE open gauge",
        'open{edge_instance="a"} 3.0',
        'open{edge_instance="b"} 4.0',
        "# TYPE seen_total counter",
        'seen_total{edge_instance="a",event="x y"} 1.0',
    ]


def test_the_instance_without_a_name_has_no_label() -> None:
    assert exposition.join_instances({"": OLD}) == OLD
