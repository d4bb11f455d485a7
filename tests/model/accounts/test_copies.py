"""The fields of owners and accounts that unique keys repeat. Pure."""

from typing import Any

import pytest

from chalicelib.model.accounts import copies
from chalicelib.storage.records.items import Item


@pytest.mark.parametrize(
    ("attributes", "fields", "differs"),
    [
        ({}, {}, False),
        ({"active": True, "digest": "d"}, {"active": True}, False),
        ({"active": True}, {"active": False}, True),
        ({}, {"active": True}, True),
        ({}, {"account_networks": None}, False),
        ({"account_networks": []}, {"account_networks": None}, False),
        ({"account_networks": ["192.0.2.0/24"]}, {"account_networks": None}, True),
        ({"name": "ada"}, {"name": "eve"}, True),
    ],
)
def test_a_missing_field_is_like_an_empty_one(
    attributes: dict[str, Any], fields: dict[str, Any], differs: bool
) -> None:
    assert copies.differs(attributes, fields) is differs


def owner(**body: Any) -> Item:
    return Item("acct_a#/bot_users", "bot_a", body)


ACCOUNT = Item("accounts", "acct_a", {"name": "a"})


@pytest.mark.parametrize(
    ("pair", "active"),
    [
        ((owner(name="b"), ACCOUNT), True),
        ((owner(name="b", active=False), ACCOUNT), False),
        ((owner(name="b"), Item("accounts", "acct_a", {"name": "a", "active": False})), False),
        ((owner(), ACCOUNT), False),
        ((owner(name="b"), Item("accounts", "acct_a", {})), False),
    ],
)
def test_an_owner_is_active_with_its_account(pair: tuple[Item, Item], active: bool) -> None:
    assert copies.are_active(pair) is active
