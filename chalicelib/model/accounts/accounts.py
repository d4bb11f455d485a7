"""Accounts, and their users and bots, which own credentials.

The operator creates accounts, users and bots. Admins of an account can create bots.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from chalicelib import ids
from chalicelib.model.base import kinds, records, switches
from chalicelib.model.base.records import Described
from chalicelib.model.base.switches import Switchable
from chalicelib.model.limits import item_counts
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

SCOPE = "accounts"
MAX_USERS = 1000  # the most users of an account
OWNERS = {kind.prefix: kind for kind in kinds.list_by_field("owner_id")}


@dataclass(frozen=True, kw_only=True)
class Account(Switchable):
    """The stored form of an account. With `only_reserved`, its tunnels can only use names that it has reserved.

    `limits` are the limits of requests that the operator has set for this account, by name (see `rates.py`). They
    replace the limits of the deployment.
    """

    only_reserved: bool = False
    limits: dict[str, int] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_record().items() if value or name != "limits"}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        return (UniqueKey("account_name", self.name),)


@dataclass(frozen=True, kw_only=True)
class User(Switchable):
    """The stored form of a user. An admin can act for all users and bots of the account."""

    admin: bool = False

    @property
    def role(self) -> Literal["admin", "member"]:
        return "admin" if self.admin else "member"

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "role": self.role}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the name's two unique keys, one for users and one for bots.

        Together, they prevent a user and a bot of an account from having the same name. Users and bots that version
        2.0.0 of the service created have only one of the two keys.
        """
        variants = (("user_name", kinds.USERS), ("name", kinds.BOT_USERS))
        scopes = [(key, items.scope(account, kind.path)) for key, kind in variants]
        return tuple(UniqueKey(key, f"{scope}#{self.name}", field="name") for key, scope in scopes)


@dataclass(frozen=True, kw_only=True)
class Bot(User, Described):
    """The stored form of a bot."""


@dataclass(frozen=True)
class Owner:
    """A user or bot. Admins can act for all of the account. Inactive owners cannot act."""

    id: str
    admin: bool
    active: bool = True
    name: str = ""


def new_account(name: str) -> Item:
    """Return a new account, which is not stored yet."""
    id = ids.new(kinds.ACCOUNTS.prefix)
    return _build_item(SCOPE, id, Account(created_at=ids.time_of(id), name=name))


def new_user(account: str, name: str, *, admin: bool) -> Item:
    """Return a new user of an account, which is not stored yet."""
    id = ids.new(kinds.USERS.prefix)
    user = User(created_at=ids.time_of(id), name=name, admin=admin)
    return _build_item(items.scope(account, kinds.USERS.path), id, user)


def count_new_user(account: str) -> Write:
    """Return the write that counts a new user of an account. It fails with TooManyItems above MAX_USERS."""
    message = f"An account can have at most {MAX_USERS} users: delete one first."
    return item_counts.add(account, kinds.USERS.path, MAX_USERS, message)


def name_key(account: str, name: str) -> UniqueKey:
    """Return the unique key for a name of a user. A bot with this name has the same key."""
    return User(name=name).unique_keys(account, "")[0]


def find_owner(account: str, id: str) -> Owner | None:
    """Return a user or bot of an account, or None. Raises MalformedRecord, aws.Unavailable."""
    item = read(account, id)
    user = records.decode(User, item) if item else None
    return Owner(id, user.admin, user.active, user.name) if user else None


def name_of(account: str, id: str) -> str:
    """Return the name of a user or bot of an account, or "".

    Raises MalformedRecord, aws.Unavailable.
    """
    owner = find_owner(account, id)
    return owner.name if owner else ""


def read(account: str, id: str) -> Item | None:
    """Return the record of a user or bot of an account, or None.

    The record can be malformed. Raises aws.Unavailable.
    """
    kind = OWNERS.get(id.partition("_")[0])
    return table.find(items.scope(account, kind.path), id) if kind else None


def is_owner_active(account: str, id: str) -> bool:
    """Return whether a user or bot and its account are active. Two reads. Raises aws.Unavailable."""
    item = read(account, id)
    return bool(item and switches.is_on(item)) and is_account_active(account)


def is_account_active(account: str) -> bool:
    """Return whether an account is active. One read. Raises aws.Unavailable."""
    item = table.find(SCOPE, account)
    return bool(item and switches.is_on(item))


def requires_reserved_names(account: str) -> bool:
    """Return whether tunnels of an account can only use reserved names. Raises aws.Unavailable."""
    item = table.find(SCOPE, account)
    return item is None or next((stored.only_reserved for _, stored in records.decode_each(Account, [item])), True)


def find_limited_to_reserved(accounts: Iterable[str]) -> frozenset[str]:
    """Return the ids of the accounts that limit their tunnels to reserved names.

    Also returns the ids of accounts with a missing or malformed record, because their limit cannot be read.

    One call per hundred accounts. Raises aws.Unavailable.
    """
    account_ids = frozenset(accounts)
    account_items = map(Item.from_record, table.read_records((SCOPE, account) for account in account_ids).values())
    live = (item for item in account_items if item.is_live and (item.body or item.malformed))
    return account_ids - {item.id for item, stored in records.decode_each(Account, live) if not stored.only_reserved}


def list_owners(account: str) -> list[Item]:
    """Return all users and bots of an account, oldest first. Raises aws.Unavailable."""
    owners = [item for kind in OWNERS.values() for item in table.list_newest(items.scope(account, kind.path))]
    return sorted(owners, key=lambda item: ids.strip_prefix(item.id))


def _build_item(scope: str, id: str, stored: Account | User) -> Item:
    return Item(scope, id, stored.to_record(), unique_keys=stored.unique_keys(scope.partition("#")[0], id))
