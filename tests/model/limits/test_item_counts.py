"""The limit on the number of items, with creations that are counted and others that are not."""

import pytest

from chalicelib.model import changes
from chalicelib.model.accounts import accounts
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.model.limits import item_counts
from chalicelib.model.limits.item_counts import TooManyItems
from chalicelib.operator import owners
from chalicelib.storage.client import dynamodb
from tests.transports import Client

PATH = kinds.USERS.path


def create(account: str, name: str, limit: int = 3) -> str:
    user = accounts.new_user(account, name, admin=False)
    Change(OPERATOR).put(user).add(item_counts.add(account, PATH, limit, "full")).commit()
    return user.id


def read_count(account: str) -> int | None:
    return (dynamodb.get(*item_counts.record_key(account, PATH)) or {}).get("count")


def test_a_creation_counts_the_items_only_if_the_limit_may_be_reached(admin: Client) -> None:
    assert read_count(admin.account) is None
    first = create(admin.account, "one")
    assert read_count(admin.account) == 2
    create(admin.account, "two")
    with pytest.raises(TooManyItems, match=r"^full$"):
        create(admin.account, "three")
    assert changes.delete(Change(OPERATOR), f"{admin.account}#{PATH}", first)
    assert read_count(admin.account) == 3
    create(admin.account, "three")
    with pytest.raises(TooManyItems):
        create(admin.account, "four")


def test_users_of_the_operator_are_counted_with_the_next_creation(admin: Client) -> None:
    create(admin.account, "one", limit=4)
    owners.add_owner(admin.account, "usr", "two", admin=False)
    assert read_count(admin.account) is None
    create(admin.account, "three", limit=4)
    assert read_count(admin.account) == 4
    with pytest.raises(TooManyItems):
        create(admin.account, "four", limit=4)
