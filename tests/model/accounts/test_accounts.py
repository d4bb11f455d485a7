"""Malformed accounts and owners have no rights."""

from typing import Any

from chalicelib.model.accounts import accounts
from tests.records import put, read_record
from tests.transports import Client


def test_a_malformed_account_or_owner_is_not_on_and_has_reserved_names_only(admin: Client) -> None:
    record = read_record(admin.account)
    bodies: list[Any] = [[], "text", {**record["body"], "active": "yes"}, {**record["body"], "only_reserved": None}]
    for body in bodies:
        put({**record, "body": body})
        assert accounts.requires_reserved_names(admin.account)
        assert accounts.find_limited_to_reserved([admin.account]) == {admin.account}
    put({**record, "body": {**record["body"], "active": "yes"}})
    assert not accounts.is_account_active(admin.account)
