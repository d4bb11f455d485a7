"""All that Envoy is told of a small world, word for word: a change of it that is not meant is seen here first."""

import json
from dataclasses import replace
from typing import Any

from edge.process.settings import Limits
from tests.edge.envoy import whole_world


def test_envoy_is_told_of_a_small_world_what_it_was_told_before() -> None:
    before: dict[str, Any] = json.loads(whole_world.FILE.read_text())
    now = whole_world.build(whole_world.SETTINGS)
    assert list(now) == list(before)
    assert [name for name in now if now[name] != before[name]] == []


def test_templates_do_not_change_when_resources_are_built_from_them() -> None:
    before = whole_world.build(whole_world.SETTINGS)
    other = replace(whole_world.SETTINGS, edge_port=443, abuse_contact="", limits=Limits(max_connections=7))
    assert whole_world.build(other) != before
    assert whole_world.build(whole_world.SETTINGS) == before
