"""The order of changes: additions, then what sends visitors to them, then removals."""

import pytest

from edge.envoy.resources import Key, Resource, split_stages


@pytest.mark.parametrize(
    ("key", "stage_of_addition", "stage_of_emptying", "stage_of_removal"),
    [
        (Key("cluster", "group/bkdtg_1"), 0, 2, 2),
        (Key("cluster", "name/a.example.com"), 1, 2, 2),
        (Key("cluster", "port/20000"), 0, 2, 2),
        (Key("listener", "https"), 0, 2, 2),
        (Key("listener", "port/20000"), 1, 2, 2),
        (Key("listener", "https", "blocked"), 0, 2, 2),
        (Key("listener", "https", "a.example.com"), 1, 2, 1),
        (Key("routes", "operator", "a.example.com"), 1, 2, 1),
    ],
)
def test_the_stage_of_a_change(key: Key, stage_of_addition: int, stage_of_emptying: int, stage_of_removal: int) -> None:
    changes = (Resource(key, b""), Resource(key, b"", is_emptied=True), None)
    stages = [split_stages({key: change}).index({key: change}) for change in changes]
    assert stages == [stage_of_addition, stage_of_emptying, stage_of_removal]
