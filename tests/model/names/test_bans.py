"""A malformed ban still bans."""

from chalicelib.model.tunnels import name_bans
from tests.records import put, with_scope
from tests.transports import Client


def test_a_malformed_ban_still_bans(admin: Client) -> None:
    name_bans.ban_name("a.tunnels.localhost")
    (record,) = with_scope("edge#/banned_names")
    put({**record, "body": "text"})
    assert name_bans.is_banned("a.tunnels.localhost")
    assert name_bans.list_banned() == ["a.tunnels.localhost"]
