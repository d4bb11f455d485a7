"""All that Envoy is told of a small world, word for word: a change of it that is not meant is seen here first."""

import json
from typing import Any

from tests.edge.envoy import whole_world


def test_envoy_is_told_of_a_small_world_what_it_was_told_before() -> None:
    before: dict[str, Any] = json.loads(whole_world.FILE.read_text())
    now = whole_world.told()
    assert list(now) == list(before)
    assert [name for name in now if now[name] != before[name]] == []
