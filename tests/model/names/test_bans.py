"""A malformed ban still bans."""

from typing import Any

from chalicelib.model.tunnels import name_bans
from chalicelib.storage.client import aws, dynamodb
from tests.records import put
from tests.transports import Client


def records(prefix: str) -> list[dict[str, Any]]:
    found = aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"]
    return [dynamodb.plain(record) for record in found if record["scope"]["S"].startswith(prefix)]


def test_a_malformed_ban_still_bans(admin: Client) -> None:
    name_bans.ban_name("a.tunnels.localhost")
    (record,) = records("edge#/banned_names")
    put({**record, "body": "text"})
    assert name_bans.is_banned("a.tunnels.localhost")
    assert name_bans.banned_names() == ["a.tunnels.localhost"]
