"""Resources of several owners stay until the last one gives them up."""

from edge.envoy.resources import Key
from edge.serving.reference_counts import ReferenceCounts

ONE, TWO, THREE = (Key("cluster", name) for name in ("one", "two", "three"))


def test_a_resource_is_unused_when_its_last_owner_has_left() -> None:
    made = ReferenceCounts()
    made.add("a", [ONE, TWO])
    made.add("b", [TWO])
    made.add("b", [TWO, THREE])
    assert made.reduce("a") == [ONE]
    assert made.reduce("b", [THREE]) == [TWO]
    assert [made.is_used(it) for it in (ONE, TWO, THREE)] == [False, False, True]
    assert made.reduce("b") == [THREE]
    assert made.reduce("unknown") == []
