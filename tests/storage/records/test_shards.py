"""Shards: the scopes and numbers are in stored keys, so they must never change."""

import pytest

from chalicelib.model.names import listed_edges
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import change_log, shards
from chalicelib.storage.records.change_log import ItemKey
from chalicelib.storage.records.items import Item


@pytest.mark.parametrize(
    ("id", "edge", "further"),
    [
        ("edghts_2TfXCSmBHSvnQdwvT1fBtQ1mFEY", 12, 5),
        ("edgtcp_2TfXCSmBHSvnQdwvT1fBtQ1mFEZ", 12, 5),
        ("sshuc_2TfXCSmBHSvnQdwvT1fBtQ1mFE0", 6, 7),
        ("evt_000000000000000000000000000", 5, 6),
    ],
)
def test_a_record_is_in_the_shard_of_its_id(id: str, edge: int, further: int) -> None:
    account = "acct_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
    collection = f"{account}#/ssh_user_certificates"
    item = Item(f"{account}#/edges/tcp", id, {"hostports": ["a.example.com:443"]})
    (write,) = listed_edges.list_edge(None, item)
    assert write.request["Key"]["scope"] == {"S": f"edge#/edges/{edge}"}
    assert shards.list_further(collection).scope_of(id) == f"{collection}/{further}"
    assert shards.list_further(collection).number_of(id) == further


def test_further_shards_are_numbered_from_one() -> None:
    assert shards.list_further("acct_x#/audit_events").scopes == [
        f"acct_x#/audit_events/{number}" for number in range(1, 9)
    ]


def test_the_log_of_changes_has_four_shards_and_all_are_read() -> None:
    item_keys = [ItemKey("acct_x#/tunnels", f"tn_{number}") for number in range(40)]
    for item_key in item_keys:
        write: Write = change_log.entry_of(item_key)
        assert write.request["Item"]["scope"]["S"] in [f"changes#{number}" for number in range(4)]
        dynamodb.do(write)
    assert {item_key for change in change_log.read_since(0) for item_key in change.item_keys} == {*item_keys}
