"""Accounts and the users and bots in them: who can own a credential. The operator makes them, and admins make bots."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chalicelib import clock, ids
from chalicelib.model import kinds, records
from chalicelib.model.records import Created, Described
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

Switch: TypeAlias = Literal["on", "off"]  # to what somebody is switched

SCOPE = "accounts"
OWNERS = {kind.prefix: kind for kind in kinds.named_by("owner_id")}


@dataclass(frozen=True, kw_only=True)
class Switchable(Created):
    """The stored form of an account, a user or a bot, which may be switched off."""

    name: str = ""
    active: bool = True

    AUDITED = ("name", "active")


@dataclass(frozen=True, kw_only=True)
class Account(Switchable):
    """The stored form of an account. `only_reserved`: its tunnels have names that it has reserved, and no others."""

    only_reserved: bool = False

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        return (UniqueKey("account_name", self.name),)


@dataclass(frozen=True, kw_only=True)
class User(Switchable):
    """The stored form of a user. An admin may act for the others of the account."""

    admin: bool = False

    @property
    def role(self) -> Literal["admin", "member"]:
        return "admin" if self.admin else "member"

    def audited_fields(self) -> dict[str, Any]:
        return {**super().audited_fields(), "role": self.role}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return two keys of its name, so that no two users and bots of an account share one.

        A name has a key among users and one among bots; an owner of earlier editions holds that of its kind alone.
        """
        kept = (("user_name", kinds.USERS), ("name", kinds.BOT_USERS))
        scopes = [(key, items.scope(account, kind.path)) for key, kind in kept]
        return tuple(UniqueKey(key, f"{scope}#{self.name}", field="name") for key, scope in scopes)


@dataclass(frozen=True, kw_only=True)
class Bot(User, Described):
    """The stored form of a bot."""


@dataclass(frozen=True)
class Owner:
    """A user or bot, whether it may act for the others of its account, whether it may act at all, and its name."""

    id: str
    admin: bool
    active: bool = True
    name: str = ""


def new_account(name: str) -> Item:
    """Make an account, not yet stored."""
    id = ids.new(kinds.ACCOUNTS.prefix)
    return _new(SCOPE, id, Account(created_at=clock.rfc3339(ids.created_at(id)), name=name))


def new_user(account: str, name: str, *, admin: bool) -> Item:
    """Make a user of an account, not yet stored."""
    id = ids.new(kinds.USERS.prefix)
    user = User(created_at=clock.rfc3339(ids.created_at(id)), name=name, admin=admin)
    return _new(items.scope(account, kinds.USERS.path), id, user)


def find_owner(account: str, id: str) -> Owner | None:
    """Return the user or bot of that id, or None when the account has none. Raises MalformedRecord, aws.Unavailable."""
    item = read(account, id)
    found = records.decode(User, item) if item else None
    return Owner(id, found.admin, found.active, found.name) if found else None


def read(account: str, id: str) -> Item | None:
    """Return the record of a user or bot, or None when the account has none of that id. It may be malformed.

    Raises aws.Unavailable.
    """
    kind = OWNERS.get(id.partition("_")[0])
    return table.find(items.scope(account, kind.path), id) if kind else None


def is_owner_active(account: str, id: str) -> bool:
    """Tell whether neither a user or bot nor its account is switched off. Two reads. Raises aws.Unavailable."""
    found = read(account, id)
    return bool(found and is_item_active(found)) and is_account_active(account)


def is_account_active(account: str) -> bool:
    """Tell whether an account is not switched off. One read. Raises aws.Unavailable."""
    found = table.find(SCOPE, account)
    return bool(found and is_item_active(found))


def requires_reserved_names(account: str) -> bool:
    """Tell whether tunnels of an account may have no names but reserved ones. Raises aws.Unavailable."""
    found = table.find(SCOPE, account)
    return found is None or next((it.only_reserved for _, it in records.decoded(Account, [found])), True)


def find_limited_to_reserved(accounts: Iterable[str]) -> frozenset[str]:
    """Return the accounts whose tunnels may have reserved names alone: a hundred in a call. Raises aws.Unavailable."""
    wanted = frozenset(accounts)
    found = map(Item.from_record, table.records((SCOPE, account) for account in wanted).values())
    live = (item for item in found if item.is_live and (item.body or item.malformed))
    return wanted - {item.id for item, stored in records.decoded(Account, live) if not stored.only_reserved}


def is_item_active(item: Item) -> bool:
    """Return whether an account, a user or a bot is switched on. A malformed one is not."""
    return any(stored.active for _, stored in records.decoded(Switchable, [item]))


def list_owners(account: str) -> list[Item]:
    """Return all users and bots of an account, the oldest first. Raises aws.Unavailable."""
    found = [item for kind in OWNERS.values() for item in table.newest(items.scope(account, kind.path))]
    return sorted(found, key=lambda item: ids.unprefixed(item.id))


def _new(scope: str, id: str, stored: Account | User) -> Item:
    return Item(scope, id, stored.to_record(), unique_keys=stored.unique_keys(scope.partition("#")[0], id))
