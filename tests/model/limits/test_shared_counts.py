"""The record to which processes add their counts."""

from chalicelib.model.limits import shared_counts
from chalicelib.storage.client import dynamodb


def test_counts_of_a_window_add_up_in_a_record_that_expires() -> None:
    assert shared_counts.add("acct_x#/limits/account", 65, 4) == {65: 4}
    assert shared_counts.add("acct_x#/limits/account", 65, 3) == {65: 7}
    assert shared_counts.add("acct_x#/limits/account", 66, 1) == {65: 7, 66: 1}
    assert shared_counts.add("acct_x#/limits/account", 90, 1) == {90: 1}
    records = (dynamodb.get("acct_x#/limits/account", id) for id in ("2", "3"))
    assert [record and record["expires"] for record in records] == [252, 300]
