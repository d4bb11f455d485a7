"""Resources of several owners stay until the last one gives them up."""

from edge.envoy.resources import Key
from edge.serving.reference_counts import ReferenceCounts

FIRST, SECOND, THIRD = (Key("cluster", name) for name in ("one", "two", "three"))


def test_a_resource_is_unused_when_its_last_owner_has_left() -> None:
    counts = ReferenceCounts()
    counts.add("a", [FIRST, SECOND])
    counts.add("b", [SECOND])
    counts.add("b", [SECOND, THIRD])
    assert counts.reduce("a") == [FIRST]
    assert counts.reduce("b", [THIRD]) == [SECOND]
    assert [counts.is_used(key) for key in (FIRST, SECOND, THIRD)] == [False, False, True]
    assert counts.reduce("b") == [THIRD]
    assert counts.reduce("unknown") == []
