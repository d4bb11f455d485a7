"""Accounts and the users and bots in them: who can own a credential. The operator makes them, and admins make bots."""

from dataclasses import dataclass

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

SCOPE = "accounts"
OWNERS = {kind.prefix: kind for kind in kinds.named_by("owner_id")}


@dataclass(frozen=True)
class Owner:
    """A user or bot, whether it may act for the others of its account, and whether it may act at all."""

    id: str
    admin: bool
    active: bool = True


def new_account(name: str) -> Item:
    """Make an account, not yet stored."""
    id = ids.new(kinds.ACCOUNTS.prefix)
    body = {"name": name, "active": True, "created_at": clock.rfc3339(ids.created_at(id))}
    return Item(SCOPE, id, body, unique_keys=(UniqueKey("account_name", name),))


def new_user(account: str, name: str, *, admin: bool) -> Item:
    """Make a user of an account, not yet stored."""
    id = ids.new(kinds.USERS.prefix)
    body = {"name": name, "admin": admin, "active": True, "created_at": clock.rfc3339(ids.created_at(id))}
    return Item(items.scope(account, kinds.USERS.path), id, body, unique_keys=name_keys(account, name))


def name_keys(account: str, name: str) -> tuple[UniqueKey, ...]:
    """Return the unique keys of a user or bot of that name, by which no two of an account have the same.

    They are that of users and that of bots: an owner of earlier editions holds the one of its kind alone.
    """
    kept = (("user_name", kinds.USERS), ("name", kinds.BOT_USERS))
    return tuple(UniqueKey(key, f"{items.scope(account, kind.path)}#{name}", field="name") for key, kind in kept)


def owner(account: str, id: str) -> Owner | None:
    """Return the user or bot of that id, or None when the account has none. Raises aws.Unavailable."""
    found = read(account, id)
    return Owner(found.id, found.body["admin"], found.body.get("active", True)) if found else None


def read(account: str, id: str) -> Item | None:
    """Return the record of a user or bot, or None when the account has none of that id. Raises aws.Unavailable."""
    kind = OWNERS.get(id.partition("_")[0])
    return table.read(items.scope(account, kind.path), id) if kind else None


def is_active(account: str, id: str) -> bool:
    """Tell whether neither a user or bot nor its account is switched off. Two reads. Raises aws.Unavailable."""
    found = read(account, id)
    return bool(found and found.body.get("active", True)) and is_switched_on(account)


def is_switched_on(account: str) -> bool:
    """Tell whether an account is not switched off. One read. Raises aws.Unavailable."""
    found = table.read(SCOPE, account)
    return bool(found and found.body.get("active", True))


def owners(account: str) -> list[Item]:
    """Return all users and bots of an account, the oldest first. Raises aws.Unavailable."""
    found = [item for kind in OWNERS.values() for item in table.newest(items.scope(account, kind.path))]
    return sorted(found, key=lambda item: ids.unprefixed(item.id))
