"""The one switch: what an item that is off stores, and who reads it."""

from dataclasses import replace

import pytest

from chalicelib import ids
from chalicelib.model.base import kinds, switches
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

OWNERS = (kinds.ACCOUNTS, kinds.USERS, kinds.BOT_USERS)
SUSPENDED = (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)


def item(kind: kinds.Kind, **values: object) -> Item:
    scope = f"acct_x#{kind.path}" if kind.path else "accounts"
    key = UniqueKey("a_key", "value", {"other": 1})
    body = {"created_at": "2026-11-23T12:00:00Z", **values}
    return Item(scope, ids.new(kind.prefix), body, unique_keys=(key,))


@pytest.mark.parametrize("kind", OWNERS, ids=lambda kind: kind.prefix)
def test_an_owner_or_account_stores_a_field(kind: kinds.Kind) -> None:
    on = item(kind, active=True)
    off = switches.turn(on, "off")
    assert off == replace(on, body={**on.body, "active": False})
    assert (switches.is_on(item(kind)), switches.is_on(on), switches.is_on(off)) == (True, True, False)
    assert switches.turn(off, "on") == on
    assert not switches.is_on(item(kind, active="yes"))  # malformed


@pytest.mark.parametrize("kind", SUSPENDED, ids=lambda kind: kind.prefix)
def test_another_item_is_suspended_in_its_record_and_its_unique_keys(kind: kinds.Kind) -> None:
    on = replace(item(kind), unseen={"other": True})
    off = switches.turn(on, "off")
    (key,) = off.unique_keys
    assert (off.body, off.unseen) == (on.body, {"other": True, "suspended": True})
    assert key.attributes == {"suspended": True}  # attributes that are not named stay as they are
    assert (switches.is_on(on), switches.is_on(off)) == (True, False)
    again = switches.turn(off, "on")
    (key,) = again.unique_keys
    assert (again.unseen, key.attributes) == ({"other": True}, {"suspended": False})


@pytest.mark.parametrize(
    ("attributes", "is_on"), [({}, True), ({"suspended": False}, True), ({"suspended": True}, False)]
)
def test_a_gateway_reads_the_unique_key(attributes: dict[str, bool], is_on: bool) -> None:
    assert switches.is_key_on(attributes) == is_on
