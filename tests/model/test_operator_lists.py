"""Lists of the operator are read whole, or an error is raised."""

import pytest

from chalicelib.model.names import bans
from chalicelib.model.tunnels import blocks
from chalicelib.storage.records.decoding import MalformedRecord
from tests.records import put, with_scope


def test_lists_of_the_operator_are_read_whole_or_not_at_all() -> None:
    blocks.block("192.0.2.0/24")
    blocks.block("198.51.100.0/24")
    bans.ban("*bank*")
    for scope in ("edge#/blocked_networks", "edge#/banned_patterns"):
        record = with_scope(scope)[0]
        put({**record, "body": []})
    with pytest.raises(MalformedRecord):
        blocks.list_networks()
    with pytest.raises(MalformedRecord):
        bans.list_patterns()
